//! Converts flags of x86-64, which traces contain, to those of this machine.

use libc::c_int;

/// Flags of open(2): on x86-64, and on this machine. Flags with the same number everywhere are
/// listed as well, so that no other flag is passed on.
const OPEN: [(u32, c_int); 14] = [
    (0x1, libc::O_WRONLY),
    (0x2, libc::O_RDWR),
    (0x40, libc::O_CREAT),
    (0x80, libc::O_EXCL),
    (0x200, libc::O_TRUNC),
    (0x400, libc::O_APPEND),
    (0x1000, libc::O_DSYNC),
    (0x10_1000, libc::O_SYNC),
    (0x4000, libc::O_DIRECT),
    (0x1_0000, libc::O_DIRECTORY),
    (0x2_0000, libc::O_NOFOLLOW),
    (0x4_0000, libc::O_NOATIME),
    (0x20_0000, libc::O_PATH),
    (0x41_0000, libc::O_TMPFILE),
];

/// Flags of open(2) that the replay passes on.
pub(super) fn of_open(flags: u32) -> c_int {
    let set = OPEN.iter().filter(|(bits, _)| flags & bits == *bits);
    set.fold(0, |sum, (_, here)| sum | here)
}

/// Flags of `F_SETFL`. Descriptors of a replay never block.
pub(super) fn of_status(flags: u32) -> c_int {
    let may = libc::O_APPEND | libc::O_DIRECT | libc::O_NOATIME;
    of_open(flags) & may | libc::O_NONBLOCK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_converted_to_those_of_this_machine() {
        assert_eq!(of_open(0o1101), libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC);
        assert_eq!(of_open(0x1_0000), libc::O_DIRECTORY);
        assert_eq!(of_open(0x41_0002), libc::O_TMPFILE | libc::O_RDWR);
        assert_eq!(of_open(0x1000), libc::O_DSYNC);
        // O_ASYNC and an unknown flag.
        assert_eq!(of_open(0x2000 | 1 << 30), 0);
        assert_eq!(of_status(0x401), libc::O_APPEND | libc::O_NONBLOCK);
    }
}
