"""What the logs of Open vSwitch and OVN say of long rounds, with nothing attached.

From files (`files`) to lines (`lines`), to rounds with their resource usage (`rounds`) and causes
(`causes`), to sums (`survey`), to a report (`text`, `page`). Who wrote a log is not trusted: each
step is bounded.
"""
