// Perfetto's trace_processor under node: bytes in on stdin, bytes out on stdout.
//
//     node trace_processor.js FOLDER      FOLDER holds engine_bundle.js and trace_processor.wasm
//
// Both directions carry TraceProcessorRpcStream messages, as the engine reads and writes them.
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const folder = process.argv[2];
console.log = console.warn = (line) => process.stderr.write(`${line}\n`);

// The engine is built for a worker of a browser: what it asks of one, and nothing of node.
globalThis.self = globalThis;
globalThis.WorkerGlobalScope = function () {};
globalThis.location = { href: `file://${folder}/engine_bundle.js` };
globalThis.XMLHttpRequest = class {
  open(method, name) {
    this.name = path.basename(name);
  }
  send() {
    const data = fs.readFileSync(path.join(folder, this.name));
    this.response = data.buffer.slice(data.byteOffset, data.byteOffset + data.length);
  }
};
const versions = process.versions;
Object.defineProperty(process, "versions", { value: {}, configurable: true });
vm.runInThisContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"), "engine_bundle.js");
Object.defineProperty(process, "versions", { value: versions, configurable: true });

const port = {
  postMessage(reply) {
    for (let at = 0; at < reply.length; ) {
      at += fs.writeSync(1, reply, at);
    }
  },
};
self.onmessage({ data: port });
// The engine is compiled by now, and starts in the microtasks behind this one.
setImmediate(() => {
  const buffer = Buffer.alloc(1 << 22);
  for (let size; (size = fs.readSync(0, buffer, 0, buffer.length)) > 0; ) {
    port.onmessage({ data: new Uint8Array(buffer.subarray(0, size)) });
  }
  process.exit(0);
});
