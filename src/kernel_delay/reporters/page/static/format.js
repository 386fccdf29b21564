// Numbers as they are read: thousands separators, units, and columns whose points align.

const UNITS = [
  ["ns", 1],
  ["µs", 1e3],
  ["ms", 1e6],
  ["s", 1e9],
];

const COUNT = new Intl.NumberFormat("en-US");

export function count(number) {
  return COUNT.format(number);
}

export function fixed(number, digits) {
  return number.toLocaleString("en-US", {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
}

// How many digits after the point make three or four in all.
function digitsOf(value) {
  return value >= 100 ? 0 : value >= 10 ? 1 : 2;
}

// A time by itself: `4.123 ms`.
export function time(ns) {
  if (!ns) return "0 s";
  const [unit, size] = UNITS.findLast(([, each]) => Math.abs(ns) >= each) ?? UNITS[0];
  const value = ns / size;
  const digits = size === 1 ? 0 : digitsOf(value) + 1;
  return `${fixed(value, digits)} ${unit}`;
}

// How the times of a table are written: in one unit, that of the longest. If the shortest would be
// less than a hundredth of it, the unit is up to two steps smaller.
export function unitOf(times) {
  const known = times.filter((ns) => ns > 0);
  const longest = known.reduce((a, b) => Math.max(a, b), 1);
  const shortest = known.reduce((a, b) => Math.min(a, b), longest);
  let place = UNITS.findLastIndex(([, size]) => size <= longest);
  const smallest = Math.max(0, place - 2);
  while (place > smallest && shortest < UNITS[place][1] / 100) place--;
  const [unit, size] = UNITS[Math.max(0, place)];
  const digits = size === 1 ? 0 : shortest < size ? 3 : shortest < 10 * size ? 2 : 1;
  const least = 10 ** -digits;
  const write = (ns) => (!ns ? "0" : ns / size < least ? `<${least}` : fixed(ns / size, digits));
  // Three digits, for what is no measured time but an estimate.
  const estimate = (ns) => fixed(ns / size, digitsOf(ns / size));
  return { unit, write, estimate };
}

export function percent(part, whole, digits = 1) {
  if (!whole || !part) return "0";
  const value = (100 * part) / whole;
  const least = 10 ** -digits;
  return value < least ? `<${least}` : fixed(value, digits);
}

export function exact(ns) {
  return `${count(ns)} ns`;
}

// What a system call that failed returned.
const ERRNO = {
  1: "EPERM", 2: "ENOENT", 3: "ESRCH", 4: "EINTR", 5: "EIO", 6: "ENXIO", 7: "E2BIG", 9: "EBADF",
  10: "ECHILD", 11: "EAGAIN", 12: "ENOMEM", 13: "EACCES", 14: "EFAULT", 16: "EBUSY", 17: "EEXIST",
  19: "ENODEV", 20: "ENOTDIR", 21: "EISDIR", 22: "EINVAL", 24: "EMFILE", 25: "ENOTTY",
  27: "EFBIG", 28: "ENOSPC", 29: "ESPIPE", 32: "EPIPE", 38: "ENOSYS", 95: "EOPNOTSUPP",
  98: "EADDRINUSE", 103: "ECONNABORTED", 104: "ECONNRESET", 105: "ENOBUFS", 107: "ENOTCONN",
  110: "ETIMEDOUT", 111: "ECONNREFUSED", 113: "EHOSTUNREACH", 115: "EINPROGRESS",
  512: "ERESTARTSYS", 513: "ERESTARTNOINTR", 514: "ERESTARTNOHAND", 516: "ERESTART_RESTARTBLOCK",
};

export function returned(value) {
  if (value >= 0 || value < -4095) return count(value);
  return ERRNO[-value] ? `${value} ${ERRNO[-value]}` : `${value}`;
}
