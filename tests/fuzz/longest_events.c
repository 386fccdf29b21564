// SPDX-License-Identifier: Apache-2.0
/* Events of any lengths, kept and taken, beside a plain count of what comes and goes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "entry_order.h"
#include "longest_events.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct longest_events events = {};
	uint64_t in = 0, out = 0;

	if (!size)
		return 0;
	if (!longest_events_open(&events, data[0] % 16))
		abort();
	for (size_t at = 1; at + 17 <= size; at += 17) {
		struct kept_event event = {};
		struct taken_events taken = {};

		memcpy(&event.entry_ns, data + at, 8);
		memcpy(&event.exit_ns, data + at + 8, 8);
		if (data[at + 16] % 4) {
			longest_events_add(&events, &event);
			in++;
			continue;
		}
		if (!longest_events_take(&events, event.exit_ns, &taken))
			abort();
		if (!sort_by_entry(taken.events, taken.count))
			abort();
		for (uint64_t i = 1; i < taken.count; i++)
			if (taken.events[i - 1].entry_ns > taken.events[i].entry_ns)
				abort();
		out += taken.count + taken.shorter;
		free(taken.events);
	}
	if (in != out + events.count + events.shorter || events.count > events.max)
		abort();
	longest_events_close(&events);
	return 0;
}
