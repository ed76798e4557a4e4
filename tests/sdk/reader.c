/* A reader of a step ring in C: prints every record once, in order, until the record `exit`, the writer's end or
 * so many seconds. Built from the generated header alone, to show that the page is enough to write one. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "step_ring.h"

static uint32_t table[256];

static void make_table(void) {
    for (uint32_t n = 0; n < 256; n++) {
        uint32_t c = n;
        for (int bit = 0; bit < 8; bit++) c = c & 1 ? 0xEDB88320u ^ (c >> 1) : c >> 1;
        table[n] = c;
    }
}

static uint32_t crc_of(const struct step_ring_record *record) {
    const uint8_t *raw = (const uint8_t *)record;
    uint32_t c = 0xFFFFFFFFu;
    for (size_t at = 0; at < sizeof *record; at++)
        if (at < offsetof(struct step_ring_record, crc) || at >= offsetof(struct step_ring_record, step))
            c = table[(c ^ raw[at]) & 0xFF] ^ (c >> 8);
    return c ^ 0xFFFFFFFFu;
}

static int is_alive(int file) {
    struct flock asked = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(file, F_GETLK, &asked) == 0 && asked.l_type != F_UNLCK;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    int file = open(argv[1], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct step_ring_header head;
    if (file < 0 || pread(file, &head, sizeof head, 0) != (ssize_t)sizeof head) return 3;
    if (memcmp(head.magic, STEP_RING_MAGIC, sizeof head.magic) != 0) return 3;
    if (head.version != STEP_RING_VERSION || head.record_bytes != STEP_RING_RECORD_BYTES) return 3;
    make_table();
    printf("rank %d world %d job %.128s run %.128s alive %d\n", head.rank, head.world_size, head.job, head.run,
           is_alive(file));
    uint64_t next = 0, num_lost = 0;
    time_t until = time(NULL) + atoi(argv[2]);
    for (int ended = 0; !ended && time(NULL) < until;) {
        int was_alive = is_alive(file);
        if (pread(file, &head, sizeof head, 0) != (ssize_t)sizeof head) return 3;
        uint64_t newest = head.num_written + 1;
        if (newest > head.num_records + 1 && next < newest - 1 - head.num_records) {
            num_lost += newest - 1 - head.num_records - next;
            next = newest - 1 - head.num_records;
        }
        for (int looks = 0; next < newest && looks < 3;) {
            struct step_ring_record record;
            off_t at = head.header_bytes + (off_t)(next % head.num_records) * head.record_bytes;
            if (pread(file, &record, sizeof record, at) != (ssize_t)sizeof record) return 3;
            if (record.seq != 2 * next + 2 || (head.has_crc && record.crc != crc_of(&record))) {
                if (next + 1 >= head.num_written) break; /* being written */
                if (++looks == 3) num_lost++, next++, looks = 0; /* overtaken or damaged */
                continue;
            }
            looks = 0;
            printf("%" PRIu64 " %u %u %" PRId64 " %" PRId64 " %" PRId64 " %.17g %.17g\n", next++, record.kind,
                   record.flags, record.step, record.mono_ns, record.a, record.b, record.c);
            ended = record.kind == STEP_RING_EXIT;
        }
        if (!was_alive) break;
        usleep(2000);
    }
    printf("lost %" PRIu64 " alive %d\n", num_lost, is_alive(file));
    return 0;
}
