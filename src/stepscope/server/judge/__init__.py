"""From alarm to card: alarms of one cause become one incident, which is looked at, captured and told once."""

from stepscope.server.judge.handling import Settings
from stepscope.server.judge.judge import Judge
from stepscope.server.judge.worker import Bounds, NoAnswer, Worker

__all__ = ["Bounds", "Judge", "NoAnswer", "Settings", "Worker"]
