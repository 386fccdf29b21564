// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The rounds of Open vSwitch's revalidators: what each looked at, and where the
 * time of the leader went meanwhile. Flows are counted here, an event is a round.
 */
#include "flow_checks.h"
#include "leader.h"

/* struct pt_regs, which usdt.bpf.h needs */
#include <linux/ptrace.h>

#include <bpf/usdt.bpf.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define NS_PER_MS 1000000

/* The round under way, or the last. */
struct round {
	bool under_way;
	__u64 start_ns;
	__u64 stop_ns;
	__u64 n_flows;
	__u64 dumped[REVAL_RESULT_SLOTS];
	__u64 swept[REVAL_RESULT_SLOTS];
	__u64 revalidated;
	__u64 removed;
	__u32 flow_limit;
	__u64 run_delay_ns; /* the leader's, at the start */
};

/* By the address of the struct udpif. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_UDPIFS);
	__type(key, __u64);
	__type(value, struct round);
} rounds SEC(".maps");

/* Where functions are followed: the struct udpif that a thread last counted or swept, by its id. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_UDPIFS);
	__type(key, __u32);
	__type(value, __u64);
} counted_udpifs SEC(".maps");

static __always_inline __u32 read_flow_limit(const struct udpif *udpif)
{
	__u32 limit = 0;

	bpf_probe_read_user(&limit, sizeof(limit), &udpif->flow_limit);
	return limit;
}

static __noinline int start_round(const struct udpif *udpif, __u64 n_flows)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct round *round, none = {};
	struct leader leader = {.udpif = (__u64)udpif};
	__u32 id = task->pid;
	__u64 key = (__u64)udpif;

	round = bpf_map_lookup_elem(&rounds, &key);
	if (!round) {
		bpf_map_update_elem(&rounds, &key, &none, BPF_NOEXIST);
		round = bpf_map_lookup_elem(&rounds, &key);
	}
	if (!round)
		return count_lost(EVENT_REVALIDATOR_ROUND);
	/* The others wait for the leader at a barrier: nobody counts now. */
	__builtin_memset(round->dumped, 0, sizeof(round->dumped));
	__builtin_memset(round->swept, 0, sizeof(round->swept));
	round->revalidated = 0;
	round->removed = 0;
	round->n_flows = n_flows;
	round->flow_limit = read_flow_limit(udpif);
	round->run_delay_ns = has_run_delay() ? run_delay(task) : 0;
	round->under_way = true;
	bpf_map_update_elem(&leaders, &id, &leader, BPF_ANY);
	round->start_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("usdt")
int BPF_USDT(on_start_dump, const struct udpif *udpif, __u64 n_flows)
{
	return in_target() ? start_round(udpif, n_flows) : 0;
}

/* Each leader counts the flows of its udpif before it dumps them. */
SEC("kprobe")
int BPF_KPROBE(on_get_n_flows, __u64 udpif)
{
	__u32 id = bpf_get_current_task_btf()->pid;

	if (in_target())
		bpf_map_update_elem(&counted_udpifs, &id, &udpif, BPF_ANY);
	return 0;
}

/* The main thread dumps flows too, for ovs-appctl. */
SEC("kprobe")
int BPF_KPROBE(on_dump_create, const struct dpif *dpif)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 id = task->pid;
	const struct udpif *udpif;
	struct dpif *its_dpif;
	__u32 n_flows;
	__u64 *counted;

	if (!in_target() || task->pid == task->tgid)
		return 0;
	counted = bpf_map_lookup_elem(&counted_udpifs, &id);
	if (!counted)
		return 0;
	udpif = (void *)*counted;
	if (bpf_probe_read_user(&its_dpif, sizeof(its_dpif), &udpif->dpif) || its_dpif != dpif)
		return 0;
	if (bpf_probe_read_user(&n_flows, sizeof(n_flows), &udpif->n_flows))
		return 0;
	return start_round(udpif, n_flows);
}

static __always_inline void count(__u64 *counts, __u32 result)
{
	if (result > REVAL_RESULTS)
		result = REVAL_RESULTS;
	barrier_var(result);
	__sync_fetch_and_add(&counts[result & (REVAL_RESULT_SLOTS - 1)], 1);
}

/* The round that is under way with @udpif; NULL if none was seen to start. */
static __always_inline struct round *current_round(const void *udpif)
{
	__u64 key = (__u64)udpif;
	struct round *round;

	if (!in_target())
		return NULL;
	round = bpf_map_lookup_elem(&rounds, &key);
	return round && round->under_way ? round : NULL;
}

static __always_inline void count_check(struct round *round)
{
	if (round)
		__sync_fetch_and_add(&round->revalidated, 1);
}

SEC("usdt")
int BPF_USDT(on_revalidate_ukey, const void *udpif)
{
	count_check(current_round(udpif));
	return 0;
}

SEC("kprobe")
int BPF_KPROBE(on_revalidate_ukey_begin, const void *udpif)
{
	count_check(current_round(udpif));
	return 0;
}

/*
 * Those that time the checks count them too: before Linux 5.15 libbpf finds a USDT probe by its
 * address, and there can't be two programs at one.
 */
static __always_inline void see_check(const void *udpif, const void *ukey)
{
	struct round *round = current_round(udpif);

	count_check(round);
	if (round)
		begin_check((__u64)udpif, round->start_ns, (__u64)ukey);
}

SEC("usdt")
int BPF_USDT(on_check_entry, const void *udpif, const void *ukey)
{
	see_check(udpif, ukey);
	return 0;
}

SEC("usdt")
int BPF_USDT(on_check_exit, const void *udpif, const void *ukey, __u32 result)
{
	if (in_target())
		end_check(result);
	return 0;
}

SEC("kprobe")
int BPF_KPROBE(on_check_begin, const void *udpif, const void *ukey)
{
	see_check(udpif, ukey);
	return 0;
}

SEC("kretprobe")
int BPF_KRETPROBE(on_check_end, __u32 result)
{
	if (in_target())
		end_check(result);
	return 0;
}

SEC("usdt")
int BPF_USDT(on_flow_result, const void *udpif, const void *ukey, __u32 result)
{
	struct round *round = current_round(udpif);

	if (round)
		count(round->dumped, result);
	return 0;
}

SEC("usdt")
int BPF_USDT(on_flow_sweep_result, const void *udpif, const void *ukey, __u32 result)
{
	struct round *round = current_round(udpif);

	if (round)
		count(round->swept, result);
	return 0;
}

SEC("kprobe")
int BPF_KPROBE(on_sweep_begin, const struct revalidator *revalidator)
{
	__u32 id = bpf_get_current_task_btf()->pid;
	__u64 udpif;

	if (in_target() && !bpf_probe_read_user(&udpif, sizeof(udpif), &revalidator->udpif))
		bpf_map_update_elem(&counted_udpifs, &id, &udpif, BPF_ANY);
	return 0;
}

/* The sweep removes the flows that the dump deleted, and its own. */
SEC("kprobe")
int BPF_KPROBE(on_ukey_delete)
{
	__u32 id = bpf_get_current_task_btf()->pid;
	__u64 *swept = bpf_map_lookup_elem(&counted_udpifs, &id);
	struct round *round = swept ? current_round((void *)*swept) : NULL;

	if (round)
		__sync_fetch_and_add(&round->removed, 1);
	return 0;
}

static __always_inline void copy_udpif(struct revalidator_round *event, const struct udpif *from)
{
	struct revalidator *revalidators;
	struct udpif udpif;
	struct udpif *owner;
	char *name;

	if (bpf_probe_read_user(&udpif, sizeof(udpif), from))
		return;
	revalidators = udpif.revalidators;
	if (bpf_probe_read_user(&owner, sizeof(owner), &revalidators->udpif) || owner != from)
		return;
	event->is_udpif = 1;
	event->dump_duration_ms = udpif.dump_duration;
	event->max_n_flows = udpif.max_n_flows;
	event->avg_n_flows = udpif.avg_n_flows;
	event->flow_limit = udpif.flow_limit;
	if (!bpf_probe_read_user(&name, sizeof(name), &udpif.dpif->full_name))
		bpf_probe_read_user_str(event->datapath, sizeof(event->datapath), name);
}

static __always_inline void copy_account(struct revalidator_round *event, const struct round *round,
					 struct task_struct *task)
{
	__u32 id = task->pid;
	struct leader *leader;

	leader = bpf_map_lookup_elem(&leaders, &id);
	if (!leader)
		return;
	event->off_cpu_ns = leader->off_cpu_ns;
	event->account_known = !leader->missed && !leader->left_ns && has_run_delay();
	if (has_run_delay())
		event->runnable_ns = run_delay(task) - round->run_delay_ns;
	bpf_map_delete_elem(&leaders, &id);
}

static __noinline int end_round(struct round *round, const struct udpif *udpif, __u64 n_flows,
				__u32 poll_wait_ms)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 now_ns = bpf_ktime_get_ns();
	struct revalidator_round *event;

	round->under_way = false;
	if (options.time_checks)
		send_all_checks((__u64)udpif, round->start_ns);
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		round->stop_ns = 0;
		return count_lost(EVENT_REVALIDATOR_ROUND);
	}
	begin_event(&event->event, EVENT_REVALIDATOR_ROUND, now_ns);
	__builtin_memset(&event->datapath, 0,
			 sizeof(*event) - __builtin_offsetof(struct revalidator_round, datapath));
	event->udpif = (__u64)udpif;
	event->start_ns = round->start_ns;
	event->previous_stop_ns = round->stop_ns;
	event->n_flows = n_flows;
	__builtin_memcpy(event->dumped, round->dumped, sizeof(event->dumped));
	__builtin_memcpy(event->swept, round->swept, sizeof(event->swept));
	event->revalidated = round->revalidated;
	event->removed = round->removed;
	event->poll_wait_ms = poll_wait_ms;
	event->flow_limit_before = round->flow_limit;
	copy_account(event, round, task);
	copy_udpif(event, udpif);
	submit(event);
	round->stop_ns = now_ns;
	return 0;
}

SEC("usdt")
int BPF_USDT(on_sweep_done, const struct udpif *udpif, __u64 n_flows, __u32 poll_wait_ms)
{
	struct round *round = current_round(udpif);

	return round ? end_round(round, udpif, n_flows, poll_wait_ms) : 0;
}

SEC("kprobe")
int BPF_KPROBE(on_dump_destroy)
{
	__u32 id = bpf_get_current_task_btf()->pid;
	struct leader *leader = bpf_map_lookup_elem(&leaders, &id);

	if (leader)
		leader->dumped = true;
	return 0;
}

/* After a dump, the leader first sets the time of the next. */
SEC("kprobe")
int BPF_KPROBE(on_poll_timer_wait, __u64 due_ms)
{
	__u32 id = bpf_get_current_task_btf()->pid;
	struct leader *leader = bpf_map_lookup_elem(&leaders, &id);
	struct udpif *udpif;
	struct round *round;

	if (!leader || !leader->dumped)
		return 0;
	udpif = (void *)leader->udpif;
	round = current_round(udpif);
	if (!round)
		return 0;
	return end_round(round, udpif, round->n_flows, due_ms - round->start_ns / NS_PER_MS);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u64 now_ns;

	if ((__u32)prev->tgid != options.tgid && (__u32)next->tgid != options.tgid)
		return 0;
	now_ns = bpf_ktime_get_ns();
	switch_out(prev, now_ns);
	switch_in(next, now_ns);
	return 0;
}
