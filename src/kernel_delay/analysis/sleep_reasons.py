"""What a thread slept for, by the functions on its kernel stack.

The functions are those of Linux 5.14 to 7.x; where one was renamed both names stand. What a
compiler made of a function (`.constprop.0`, `.isra.0`, `.part.0`, `.cold`) counts as the function.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from kernel_delay.model import SleepReason

_FUNCTIONS: Mapping[SleepReason, str] = MappingProxyType(
    {
        # kernel/futex/
        "futex": "futex_wait_queue futex_wait_queue_me futex_do_wait futex_wait __futex_wait"
        " futex_wait_multiple futex_lock_pi futex_wait_requeue_pi",
        # fs/select.c, fs/eventpoll.c
        "poll": "poll_schedule_timeout do_poll do_sys_poll do_select core_sys_select",
        "epoll": "ep_poll do_epoll_wait",
        # fs/eventfd.c
        "eventfd": "eventfd_read eventfd_write",
        # fs/notify/: what it is notified of, and what it is to allow
        "notification": "inotify_read fanotify_read",
        "fanotify": "fanotify_handle_event fanotify_get_response",
        # fs/pipe.c
        "pipe": "pipe_read anon_pipe_read pipe_write anon_pipe_write pipe_wait_readable"
        " pipe_wait_writable wait_for_partner fifo_open",
        # net/
        "socket_connect": "inet_wait_for_connect __inet_stream_connect inet_stream_connect"
        " unix_stream_connect __sys_connect",
        "socket_receive": "unix_stream_data_wait unix_stream_read_generic sk_wait_data"
        " __skb_wait_for_more_packets __skb_recv_udp tcp_recvmsg_locked tcp_recvmsg"
        " netlink_recvmsg packet_recvmsg inet_csk_accept inet_csk_wait_for_connect"
        " unix_dgram_recvmsg vsock_connectible_recvmsg __sys_accept4",
        "socket_send": "sk_stream_wait_memory sock_alloc_send_pskb sock_wait_for_wmem"
        " unix_wait_for_peer unix_dgram_sendmsg tcp_sendmsg_locked",
        # block/, fs/direct-io.c, fs/iomap/, fs/jbd2/, fs/ext4/, fs/xfs/, fs/btrfs/, fs/buffer.c
        "disk": "blk_io_schedule submit_bio_wait bio_await __blkdev_direct_IO_simple"
        " __blkdev_direct_IO blkdev_direct_IO __iomap_dio_rw iomap_dio_rw dio_await_completion"
        " blk_mq_get_tag wbt_wait rq_qos_wait ioc_rqos_throttle blkdev_issue_flush"
        " jbd2_log_wait_commit jbd2_complete_transaction jbd2_journal_stop start_this_handle"
        " wait_transaction_locked add_transaction_credits do_get_write_access"
        " __wait_on_buffer __sync_dirty_buffer bh_read ext4_sync_file ext4_fsync_journal"
        " xlog_wait_on_iclog"
        " xfs_log_force xfs_log_force_seq xfs_file_fsync xlog_grant_head_wait xfs_buf_iowait"
        " btrfs_wait_ordered_range btrfs_sync_log btrfs_commit_transaction sync_inodes_sb"
        " blkdev_fsync throtl_wait blk_throtl_bio",
        # mm/filemap.c, mm/page-writeback.c
        "page_cache": "folio_wait_bit folio_wait_bit_killable folio_wait_bit_common"
        " wait_on_page_bit_common folio_wait_writeback"
        " wait_on_page_writeback __filemap_fdatawait_range filemap_update_page filemap_get_pages"
        " filemap_fault filemap_read balance_dirty_pages balance_dirty_pages_ratelimited_flags"
        " folio_wait_locked __folio_lock __folio_lock_killable __folio_lock_or_retry",
        "swap": "do_swap_page swap_read_folio swap_readpage swapin_readahead"
        " swap_cluster_readahead swap_vma_readahead read_swap_cache_async"
        # mm/shmem.c: of memory that is shared, and of files in a tmpfs
        " shmem_swapin_folio shmem_swapin shmem_swapin_cluster shmem_swapin_page",
        # mm/vmscan.c, mm/page_alloc.c, mm/memcontrol.c
        "reclaim": "reclaim_throttle throttle_direct_reclaim try_to_free_pages"
        " __alloc_pages_slowpath try_to_free_mem_cgroup_pages mem_cgroup_handle_over_high"
        " __mem_cgroup_handle_over_high try_charge_memcg mem_cgroup_oom_synchronize"
        " shrink_node shrink_lruvec congestion_wait __alloc_frozen_pages_noprof",
        # net/sunrpc/, fs/nfs/, fs/smb/, fs/ceph/, net/9p/
        "network_filesystem": "rpc_wait_bit_killable __rpc_execute nfs_wait_on_request"
        " nfs_wait_bit_killable nfs4_call_sync_sequence nfs_file_fsync cifs_wait_mtu_credits"
        " wait_for_response compound_send_recv ceph_mdsc_wait_request ceph_osdc_wait_request"
        " p9_client_rpc p9_virtio_request p9_fd_request",
        # fs/fuse/: dev.c, and pages that its server is to fill; fs/userfaultfd.c, kernel/seccomp.c
        "fuse": "request_wait_answer fuse_wait_on_page_writeback fuse_wait_aborted"
        " fuse_file_read_iter fuse_cache_read_iter fuse_readahead fuse_read_folio fuse_readpage"
        " fuse_do_readfolio fuse_do_readpage fuse_file_splice_read",
        "userfaultfd": "handle_userfault",
        "seccomp": "seccomp_do_user_notification",
        # fs/locks.c
        "file_lock": "flock_lock_inode_wait posix_lock_inode_wait locks_lock_inode_wait"
        " do_lock_file_wait fcntl_setlk __break_lease flock_lock_inode",
        # kernel/exit.c, kernel/fork.c
        "child": "do_wait do_wait4 kernel_wait4 kernel_waitid",
        "vfork": "wait_for_vfork_done __do_sys_vfork kernel_clone",
        # kernel/time/, fs/timerfd.c, kernel/signal.c, fs/signalfd.c
        "clock": "do_nanosleep hrtimer_nanosleep common_nsleep common_nsleep_timens"
        " timerfd_read timerfd_read_iter",
        "signal": "do_sigtimedwait sigsuspend __do_sys_pause __x64_sys_pause signalfd_read"
        " signalfd_read_iter",
        # kernel/ptrace.c; the tracee is in a state of its own
        "ptrace": "ptrace_check_attach wait_task_inactive ptrace_stop",
        # ipc/
        "semaphore": "do_semtimedop __do_semtimedop do_msgrcv do_msgsnd wq_sleep"
        " do_mq_timedreceive do_mq_timedsend",
        # drivers/tty/
        "terminal": "n_tty_read n_tty_write tty_wait_until_sent tty_read",
        # io_uring/, fs/aio.c
        "io_uring": "io_cqring_wait io_cqring_wait_schedule io_wq_worker io_sq_thread read_events",
        # fs/coredump.c, fs/binfmt_elf.c
        "core_dump": "coredump_task_exit coredump_wait do_coredump vfs_coredump elf_core_dump"
        " dump_emit dump_user_range wait_for_dump_helpers",
        # kernel/rcu/
        "rcu": "__wait_rcu_gp synchronize_rcu synchronize_rcu_normal synchronize_rcu_expedited"
        " synchronize_srcu __synchronize_srcu rcu_barrier wait_rcu_exp_gp",
        # kernel/freezer.c, kernel/signal.c
        "freeze": "__refrigerator do_freezer_trap cgroup_enter_frozen",
    }
)

_REASONS: Mapping[str, SleepReason] = MappingProxyType(
    {name: reason for reason, names in _FUNCTIONS.items() for name in names.split()}
)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# kernel/locking/: who takes the lock shows what a thread waits for.
_LOCKS = _names(
    "rwsem_down_read_slowpath rwsem_down_write_slowpath __mutex_lock __mutex_lock_slowpath"
    " mutex_lock mutex_lock_interruptible mutex_lock_killable __mutex_lock_killable_slowpath"
    " __mutex_lock_interruptible_slowpath rt_mutex_slowlock rt_mutex_slowlock_block"
    " __rt_mutex_slowlock rwbase_write_lock rwbase_read_lock __down __down_common"
    " __down_interruptible __down_killable percpu_rwsem_wait __percpu_down_read"
    " percpu_down_write schedule_preempt_disabled"
)

# mm/, arch/x86/mm/fault.c: they take the lock of the address space.
_MMAP_LOCK_TAKERS = _names(
    "lock_mm_and_find_vma get_mmap_lock_carefully upgrade_mmap_lock_carefully"
    " do_user_addr_fault exc_page_fault do_page_fault vm_mmap_pgoff __vm_munmap __do_munmap"
    " __x64_sys_munmap __do_sys_munmap do_mprotect_pkey do_madvise madvise_lock __do_sys_brk"
    " __x64_sys_brk __do_sys_mincore __x64_sys_mincore __do_sys_mremap do_mremap"
    " __x64_sys_mremap do_mlock apply_vma_lock_flags"
    " __mm_populate get_user_pages_unlocked __get_user_pages_locked"
    " internal_get_user_pages_fast find_mergeable_anon_vma vma_start_read __vma_start_write"
    " __vma_enter_locked dup_mmap dup_mm m_start proc_pid_cmdline_read"
    " mmap_read_lock_maybe_expand"
)

# Who takes a lock, by the lock.
_TAKERS_OF: Mapping[str, str] = MappingProxyType(
    {
        # net/core/rtnetlink.c, dev_ioctl.c, net/ipv4/devinet.c: the lock of all interfaces
        "rtnl_mutex": "rtnl_lock rtnl_lock_killable rtnetlink_rcv_msg rtnl_newlink rtnl_dellink"
        " rtnl_setlink rtnl_dumpit dev_ioctl devinet_ioctl",
        # net/netlink/genetlink.c
        "genl_mutex": "genl_lock genl_rcv_msg",
        "cb_lock": "genl_rcv",
        # net/openvswitch/datapath.c, meter.c, conntrack.c, dp_notify.c: the lock of all datapaths
        "ovs_mutex": "ovs_lock ovs_dp_cmd_new ovs_dp_cmd_del ovs_dp_cmd_set ovs_dp_cmd_get"
        " ovs_dp_cmd_dump ovs_flow_cmd_new ovs_flow_cmd_set ovs_flow_cmd_get ovs_flow_cmd_del"
        " ovs_vport_cmd_new ovs_vport_cmd_set ovs_vport_cmd_del ovs_meter_cmd_set"
        " ovs_meter_cmd_get ovs_meter_cmd_del ovs_ct_limit_cmd_set ovs_ct_limit_cmd_del"
        " ovs_ct_limit_cmd_get ovs_dp_masks_rebalance ovs_dp_notify_wq",
        # fs/file.c
        "the open file's f_pos_lock": "fdget_pos __fdget_pos",
        # fs/namei.c, fs/readdir.c, fs/inode.c, fs/open.c, mm/, and file systems' own
        "an inode's i_rwsem": "path_openat open_last_lookups filename_create do_unlinkat do_rmdir"
        " lookup_slow walk_component iterate_dir lock_two_directories lock_two_nondirectories"
        " vfs_rename vfs_unlink do_truncate generic_file_write_iter shmem_file_write_iter"
        " ext4_buffered_write_iter ext4_dio_write_iter ext4_fallocate btrfs_inode_lock",
    }
)
_LOCK_OF: Mapping[str, str] = MappingProxyType(
    {taker: lock for lock, takers in _TAKERS_OF.items() for taker in takers.split()}
)

# Those too sleep for nothing but a mutex or a semaphore: one of several.
_LOCK_TAKERS = _LOCK_OF.keys() | _names("netlink_dump lock_rename do_renameat2 do_linkat xfs_ilock")

# fs/super.c: what they write to can be frozen (fsfreeze(8)).
_FILE_SYSTEM_WRITERS = _names(
    "vfs_write vfs_writev do_writev do_iter_write vfs_iter_write mnt_want_write"
    " mnt_want_write_file sb_start_write file_start_write do_fallocate vfs_fallocate"
    " path_openat open_last_lookups filename_create do_unlinkat do_rmdir do_renameat2"
    " do_truncate do_sys_ftruncate ext4_page_mkwrite xfs_filemap_page_mkwrite"
    " iomap_page_mkwrite do_page_mkwrite file_update_time touch_atime vfs_utimes"
    " ext4_file_write_iter io_write vfs_copy_file_range do_splice_from iter_file_splice_write"
    " aio_write"
)
# Of these, those that take no other lock.
_FREEZE_LOCK_TAKERS = _names(
    "vfs_write vfs_writev mnt_want_write mnt_want_write_file sb_start_write file_start_write"
    " vfs_fallocate"
)
_FREEZE_LOCKS = frozenset(("percpu_rwsem_wait", "__percpu_down_read"))


def sleep_reason(stack: Sequence[str]) -> SleepReason:
    """Return what a thread slept for that has these functions on its kernel stack.

    The innermost comes first. The innermost that is known decides; "unknown" if none is.

    A program gets a stack without the scheduler's functions at its inner end, and those are
    all that are marked __sched: the slow paths of locks, too, but not who takes the lock
    (kernel/stacktrace.c:stack_trace_consume_entry_nosched(), 5.14 to 6.18).
    """
    names = [name.partition(".")[0] for name in stack]
    if names and names[0] in _MMAP_LOCK_TAKERS:
        return "mmap_lock"
    if names and names[0] in _FREEZE_LOCK_TAKERS:
        return "frozen_filesystem"
    if names and names[0] in _LOCK_TAKERS:
        return "kernel_lock"
    for name in names:
        if name in _LOCKS:
            return _lock_reason(names)
        if name in _REASONS:
            return _outer(_REASONS[name], names)
    return "unknown"


def lock_taker(stack: Sequence[str]) -> tuple[str, str | None] | None:
    """Return which function asked for a lock, by such a stack, and the lock if that shows it.

    None if it is not known.
    """
    names = (name.partition(".")[0] for name in stack)
    taker = next((name for name in names if name not in _LOCKS and name != "schedule"), None)
    return None if taker is None else (taker, _LOCK_OF.get(taker))


def _lock_reason(names: Sequence[str]) -> SleepReason:
    if not _FREEZE_LOCKS.isdisjoint(names) and not _FILE_SYSTEM_WRITERS.isdisjoint(names):
        return "frozen_filesystem"
    if not _MMAP_LOCK_TAKERS.isdisjoint(names):
        return "mmap_lock"
    known = next((_REASONS[name] for name in names if name in _REASONS), None)
    return known if known == "futex" else "kernel_lock"


def _outer(reason: SleepReason, names: Sequence[str]) -> SleepReason:
    """What a function that serves several is asked to wait for, by who asks."""
    asked_by = {_REASONS[name] for name in names if name in _REASONS}
    if "core_dump" in asked_by:
        return "core_dump"
    if reason == "socket_send" and "socket_connect" in asked_by:
        return "socket_connect"
    if reason == "page_cache":
        # Who waits for a page may do so to free memory, or for a server to fill it.
        for other in ("fuse", "network_filesystem", "swap", "reclaim"):
            if other in asked_by:
                return other
    if reason == "disk" and "swap" in asked_by:
        return "swap"
    return reason
