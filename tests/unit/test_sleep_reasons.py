"""What a thread slept for, by stacks as real kernels have them."""

from typing import get_args

import pytest

from kernel_delay.analysis.chain_roots import ROOT_REASONS
from kernel_delay.analysis.sleep_reasons import sleep_reason
from kernel_delay.analysis.verdict.wait_reasons import WAITS
from kernel_delay.model import SleepReason

# As /proc/TID/stack shows them (proc_pid_stack(5)), the innermost first.
STACKS = [
    ("futex", "schedule futex_wait_queue __futex_wait futex_wait do_futex __x64_sys_futex"),
    ("futex", "schedule futex_wait_queue_me futex_wait do_futex"),
    ("poll", "schedule schedule_hrtimeout_range poll_schedule_timeout.constprop.0 do_sys_poll"),
    ("epoll", "schedule schedule_hrtimeout_range_clock ep_poll do_epoll_wait"),
    ("pipe", "schedule pipe_read vfs_read ksys_read"),
    ("pipe", "schedule anon_pipe_write vfs_write ksys_write"),
    ("socket_receive", "schedule schedule_timeout __skb_wait_for_more_packets __skb_recv_udp"),
    ("socket_receive", "schedule schedule_timeout inet_csk_accept inet_accept do_accept"),
    ("socket_connect", "schedule schedule_timeout __inet_stream_connect inet_stream_connect"),
    ("socket_connect", "schedule schedule_timeout unix_wait_for_peer unix_stream_connect"),
    ("socket_send", "schedule schedule_timeout sk_stream_wait_memory tcp_sendmsg_locked"),
    ("disk", "schedule io_schedule blk_io_schedule __blkdev_direct_IO_simple blkdev_read_iter"),
    ("disk", "schedule jbd2_log_wait_commit ext4_sync_file do_fsync"),
    ("page_cache", "schedule io_schedule folio_wait_bit_common filemap_get_pages filemap_read"),
    ("page_cache", "schedule io_schedule_timeout balance_dirty_pages_ratelimited_flags"),
    ("swap", "schedule io_schedule folio_wait_bit_common do_swap_page handle_mm_fault"),
    ("swap", "__folio_lock shmem_swapin_folio shmem_get_folio_gfp shmem_fault __do_fault"),
    ("reclaim", "schedule schedule_timeout reclaim_throttle shrink_node try_to_free_pages"),
    ("reclaim", "schedule schedule_timeout_killable __mem_cgroup_handle_over_high"),
    ("network_filesystem", "schedule rpc_wait_bit_killable __wait_on_bit __rpc_execute"),
    ("fuse", "schedule request_wait_answer __fuse_simple_request fuse_lookup_name"),
    ("fuse", "folio_wait_bit_common filemap_get_pages filemap_read fuse_file_read_iter vfs_read"),
    ("userfaultfd", "schedule handle_userfault do_anonymous_page handle_mm_fault"),
    ("seccomp", "schedule schedule_timeout wait_for_completion_interruptible"
     " seccomp_do_user_notification.isra.0 __seccomp_filter"),
    ("file_lock", "schedule flock_lock_inode_wait locks_lock_inode_wait __x64_sys_flock"),
    ("file_lock", "schedule do_lock_file_wait fcntl_setlk do_fcntl"),
    ("child", "schedule do_wait kernel_wait4 __do_sys_wait4"),
    ("clock", "schedule do_nanosleep hrtimer_nanosleep"),
    ("clock", "schedule timerfd_read_iter vfs_read ksys_read"),
    ("eventfd", "schedule eventfd_read vfs_read ksys_read"),
    ("notification", "schedule inotify_read vfs_read ksys_read"),
    ("fanotify", "schedule fanotify_handle_event fsnotify __fsnotify_parent do_dentry_open"),
    ("mmap_lock", "schedule rwsem_down_read_slowpath down_read_killable lock_mm_and_find_vma"
     " do_user_addr_fault exc_page_fault"),
    ("mmap_lock", "schedule rwsem_down_write_slowpath down_write_killable vm_mmap_pgoff"),
    ("frozen_filesystem", "schedule percpu_rwsem_wait __percpu_down_read vfs_write ksys_write"),
    ("kernel_lock", "schedule schedule_preempt_disabled __mutex_lock pipe_write vfs_write"),
    ("kernel_lock", "schedule percpu_rwsem_wait percpu_down_write cgroup_procs_write_start"),
    # As a program gets them: without what is marked __sched at the inner end.
    ("mmap_lock", "do_mprotect_pkey __x64_sys_mprotect do_syscall_64"),
    ("mmap_lock", "__x64_sys_mincore do_syscall_64"),
    ("frozen_filesystem", "vfs_write ksys_write do_syscall_64"),
    ("unknown", "f2fs_file_write_iter vfs_write ksys_write do_syscall_64"),
    ("vfork", "kernel_clone __do_sys_vfork do_syscall_64"),
    ("disk", "__sync_dirty_buffer ext4_sync_file do_fsync"),
    ("page_cache", "folio_wait_bit filemap_read vfs_read ksys_read"),
    ("core_dump", "coredump_task_exit do_exit do_group_exit get_signal"),
    ("core_dump", "anon_pipe_write __kernel_write_iter dump_user_range elf_core_dump do_coredump"),
    ("kernel_lock", "rtnetlink_rcv_msg netlink_rcv_skb netlink_unicast netlink_sendmsg"),
    ("kernel_lock", "ext4_buffered_write_iter vfs_write __x64_sys_pwrite64 do_syscall_64"),
    ("kernel_lock", "do_renameat2 __x64_sys_rename do_syscall_64"),
    ("kernel_lock", "dev_ioctl sock_ioctl __x64_sys_ioctl do_syscall_64"),
    # Who asks for a page, or for a lock.
    ("fuse", "schedule folio_wait_bit_common filemap_read request_wait_answer"),
    ("network_filesystem", "schedule folio_wait_bit_common filemap_read __rpc_execute"),
    ("reclaim", "schedule folio_wait_bit_common shrink_node try_to_free_pages"),
    ("swap", "schedule blk_io_schedule do_swap_page handle_mm_fault"),
    ("pipe", "schedule pipe_read do_swap_page"),
    ("futex", "schedule rt_mutex_slowlock futex_wait do_futex"),
    ("kernel_lock", "schedule __mutex_lock ep_poll do_epoll_wait"),
    ("freeze", "schedule __refrigerator get_signal"),
    ("unknown", "schedule schedule_timeout something_new"),
    ("unknown", ""),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "stack"), STACKS)
def test_reason(reason: str, stack: str) -> None:
    assert sleep_reason(stack.split()) == reason


def test_each_reason_is_a_root_or_waits_for_somebody() -> None:
    """A reason that is in neither list is of no wait chain."""
    for_somebody = {
        *("child", "epoll", "eventfd", "fanotify", "file_lock", "freeze", "fuse", "futex"),
        *("io_uring", "kernel_lock", "mmap_lock", "notification", "pipe", "poll", "ptrace"),
        *("seccomp", "semaphore", "socket_connect", "socket_receive", "socket_send"),
        *("userfaultfd", "vfork"),
    }
    not_known = {"short", "unknown"}
    assert not ROOT_REASONS & for_somebody
    assert set(get_args(SleepReason)) == ROOT_REASONS | for_somebody | not_known


def test_each_reason_has_its_words() -> None:
    assert {wait.reason for wait in WAITS} == set(get_args(SleepReason)) - {"freeze"}
