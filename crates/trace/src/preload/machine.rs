//! Converts constants that differ between machines: the recorder writes those of its machine,
//! events contain those of x86-64.

use crate::constants::{F_SETFL, O_DIRECT, O_DIRECTORY, O_LARGEFILE, O_NOFOLLOW};
use crate::preload::{Head, Record};
use crate::syscalls::{Argument, Effect};

/// Flags of open(2) on arm64, and the same flags on x86-64. Source: Linux's
/// `arch/arm64/include/uapi/asm/fcntl.h`. All other constants that the recorder writes are those of
/// `asm-generic`, as on x86-64.
const ARM64: [(u64, u64); 4] = [
    (0x4000, O_DIRECTORY),
    (0x8000, O_NOFOLLOW),
    (0x1_0000, O_DIRECT),
    (0x2_0000, O_LARGEFILE),
];

/// The machine on which the programs ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Machine {
    /// x86-64, or a machine with the same numbers.
    #[default]
    X86,
    Arm64,
}

impl Machine {
    /// The machine according to uname(2). All logs of a recording are of one machine, and the first
    /// log of each program contains its name.
    pub(super) fn of(heads: &[Head<'_>]) -> Self {
        let mut images = heads.iter().filter_map(|head| head.image.as_ref());
        match images.find_map(|image| image.host.get(2)) {
            Some(&b"aarch64") => Self::Arm64,
            _ => Self::X86,
        }
    }

    /// Converts `O_*` of open(2) to x86-64.
    pub(super) fn open_flags(self, flags: u64) -> u64 {
        if self == Self::X86 {
            return flags;
        }
        let own: u64 = ARM64.iter().map(|(own, _)| own).sum();
        let moved = ARM64.iter().filter(|(own, _)| flags & own != 0);
        moved.fold(flags & !own, |flags, (_, theirs)| flags | theirs)
    }

    /// Converts an argument to x86-64.
    pub(super) fn argument(self, record: &Record<'_>, kind: Argument, number: i64) -> i64 {
        let sets_flags = |command: i64| command.cast_unsigned() == F_SETFL;
        let is_open = match (record.call.effect, kind) {
            (Effect::Open | Effect::Pair, Argument::Flags) => true,
            (Effect::Fcntl, Argument::Value) => record.arguments[1].is_some_and(sets_flags),
            _ => false,
        };
        if is_open {
            self.open_flags(number.cast_unsigned()).cast_signed()
        } else {
            number
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constants::{O_APPEND, O_CLOEXEC, O_CREAT, O_TMPFILE};

    /// The numbers are those of the headers of glibc and the kernel on arm64.
    #[test]
    fn flags_of_arm64_are_those_of_x86_64() {
        let plain = 0x2 | O_CREAT | O_APPEND | O_CLOEXEC;
        for (arm64, x86) in [
            (0, 0),
            (plain, plain),
            (0o40_000 | O_CLOEXEC, O_DIRECTORY | O_CLOEXEC),
            (0o100_000, O_NOFOLLOW),
            (0o200_000 | 1, O_DIRECT | 1),
            (0o400_000, O_LARGEFILE),
            (0o740_000, O_DIRECTORY | O_NOFOLLOW | O_DIRECT | O_LARGEFILE),
            (0o20_040_000 | 2, O_TMPFILE | 2),
        ] {
            assert_eq!(Machine::Arm64.open_flags(arm64), x86, "{arm64:#x}");
            assert_eq!(Machine::X86.open_flags(x86), x86);
        }
    }
}
