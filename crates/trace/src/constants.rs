//! Constants of Linux, from the table `constants.txt`. strace writes names; the trace file and the
//! replayer use numbers.

use std::cell::RefCell;
use std::sync::LazyLock;

use foldhash::HashMap;

use crate::memo::Memo;
use crate::text::value;

const TEXT: &str = include_str!("constants.txt");

/// Of open(2). All numbers here are those of x86-64.
pub const O_CREAT: u64 = 0x40;
/// Of open(2).
pub const O_EXCL: u64 = 0x80;
/// Of open(2).
pub const O_TRUNC: u64 = 0x200;
/// Of open(2).
pub const O_APPEND: u64 = 0x400;
/// Of open(2).
pub const O_DIRECT: u64 = 0x4000;
/// Of open(2).
pub const O_DIRECTORY: u64 = 0x1_0000;
/// Of open(2), if the program requests it; 64-bit programs need not.
pub const O_LARGEFILE: u64 = 0x8000;
/// Of open(2).
pub const O_NOFOLLOW: u64 = 0x2_0000;
/// Of open(2). `SOCK_CLOEXEC`, `EFD_CLOEXEC` and similar flags have the same value.
pub const O_CLOEXEC: u64 = 0x8_0000;
/// Of open(2): a file without a name. It includes the bit of `O_DIRECTORY`.
pub const O_TMPFILE: u64 = 0x41_0000;
/// Of unlinkat(2).
pub const AT_REMOVEDIR: u64 = 0x200;
/// Of linkat(2): a symbolic link at the end of the first path is followed.
pub const AT_SYMLINK_FOLLOW: u64 = 0x400;
/// Of fstatat(2) and similar calls: an empty path refers to the descriptor.
pub const AT_EMPTY_PATH: u64 = 0x1000;
/// Of renameat2(2).
pub const RENAME_EXCHANGE: u64 = 2;
/// Of fallocate(2).
pub const FALLOC_FL_KEEP_SIZE: u64 = 1;
/// Of fallocate(2).
pub const FALLOC_FL_COLLAPSE_RANGE: u64 = 8;
/// Of fallocate(2).
pub const FALLOC_FL_INSERT_RANGE: u64 = 0x20;
/// Of preadv2(2).
pub const RWF_APPEND: u64 = 0x10;
/// Of mmap(2).
pub const PROT_EXEC: u32 = 4;
/// Of lseek(2).
pub const SEEK_END: u64 = 2;
/// Of fcntl(2).
pub const F_DUPFD: u64 = 0;
/// Of fcntl(2).
pub const F_SETFD: u64 = 2;
/// Of fcntl(2).
pub const F_SETFL: u64 = 4;
/// Of fcntl(2).
pub const F_DUPFD_CLOEXEC: u64 = 1030;
/// Of ioctl(2): execve closes the descriptor.
pub const FIOCLEX: u64 = 0x5451;
/// Of ioctl(2): execve does not close the descriptor.
pub const FIONCLEX: u64 = 0x5450;
/// Of ioctl(2): a file gets the contents of another file and shares its storage.
pub const FICLONE: u64 = 0x4004_9409;
/// Of ioctl(2): `FICLONE` for a range.
pub const FICLONERANGE: u64 = 0x4020_940d;
/// Of futex(2): the bits of the command; the other bits are options.
pub const FUTEX_COMMAND: u64 = 0x7f;
/// Of `close_range(2)`.
pub const CLOSE_RANGE_UNSHARE: u64 = 2;
/// Of `close_range(2)`.
pub const CLOSE_RANGE_CLOEXEC: u64 = 4;
/// Of unshare(2).
pub const CLONE_FILES: u64 = 0x400;
/// Of unshare(2).
pub const CLONE_FS: u64 = 0x200;
/// Of stat(2): the bits of the type.
pub const S_IFMT: u32 = 0o17_0000;
/// Of stat(2).
pub const S_IFDIR: u32 = 0o4_0000;
/// Of stat(2).
pub const S_IFLNK: u32 = 0o12_0000;
/// Of stat(2).
pub const S_IFREG: u32 = 0o10_0000;

static TABLE: LazyLock<HashMap<&'static [u8], u64>> = LazyLock::new(|| {
    let lines = TEXT.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.flat_map(str::split_ascii_whitespace).map(|pair| {
        // The table is a part of this program, and a test reads it.
        read(pair).unwrap_or_else(|| panic!("constants.txt: {pair}"))
    });
    pairs.collect()
});

fn read(pair: &'static str) -> Option<(&'static [u8], u64)> {
    let (name, number) = pair.split_once('=')?;
    Some((name.as_bytes(), value::number(number.as_bytes())?.cast_unsigned()))
}

/// The number of a constant.
pub fn find(name: &[u8]) -> Option<u64> {
    TABLE.get(name).copied()
}

/// The number of an error, 1..=4095.
pub fn error(name: &[u8]) -> Option<u16> {
    find(name).and_then(|number| u16::try_from(number).ok())
}

/// Names of errors by number. If an error has two names: the first one in the table.
static ERRORS: LazyLock<HashMap<u16, &'static str>> = LazyLock::new(|| {
    let lines = TEXT.lines().filter(|line| line.starts_with('E'));
    let mut errors = HashMap::default();
    for (name, number) in lines
        .flat_map(str::split_ascii_whitespace)
        .filter_map(|pair| pair.split_once('='))
    {
        // Other names that begin with `E` (`EFD_CLOEXEC`) are flags.
        if let (false, Ok(number)) = (name.contains('_'), number.parse()) {
            errors.entry(number).or_insert(name);
        }
    }
    errors
});

/// The name of an error; `E` and the number if it has none in the table.
pub fn error_name(number: u16) -> String {
    ERRORS
        .get(&number)
        .map_or_else(|| format!("E{number}"), |&name| name.to_owned())
}

/// The value of a text such as `A|B|0x8|0644`. Unknown names count as 0. None if nothing in the
/// text is known.
pub fn bits(text: &[u8]) -> Option<u64> {
    thread_local! {
        static KNOWN: RefCell<Memo<Option<u64>>> = const { RefCell::new(Memo::new()) };
    }
    match text {
        // Parsing a single number takes no longer than a lookup.
        [b'0'..=b'9', ..] if text.len() < 8 => sum(text),
        _ => KNOWN.with_borrow_mut(|known| known.get(text, sum)),
    }
}

fn sum(text: &[u8]) -> Option<u64> {
    let mut sum = None;
    for word in text.split(|&byte| byte == b'|') {
        let word = word.trim_ascii();
        // strace adds a remark to a number for which it has no name: `0x80 /* F_??? */`.
        let end = word.iter().position(|&byte| byte == b' ').unwrap_or(word.len());
        let word = &word[..end];
        let value = match word.first() {
            Some(b'0'..=b'9' | b'-') => value::number(word).map(i64::cast_unsigned),
            _ => find(word),
        };
        if let Some(number) = value {
            sum = Some(sum.unwrap_or(0) | number);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_flags_is_their_sum() {
        assert_eq!(bits(b"O_RDWR|O_CREAT|O_CLOEXEC"), Some(2 | O_CREAT | O_CLOEXEC));
        assert_eq!(bits(b"S_IFREG|0644"), Some(0o10_0644));
        assert_eq!(bits(b"0x80 /* F_??? */"), Some(0x80));
        assert_eq!(bits(b"O_RDONLY|O_OF_TOMORROW"), Some(0));
        assert_eq!((bits(b"NULL"), bits(b"")), (None, None));
        assert_eq!((error(b"ENOENT"), error(b"ESTRANGE")), (Some(2), None));
    }

    #[test]
    fn the_name_of_an_error_is_found_by_its_number() {
        let names = [1, 2, 11, 22, 110, 4095].map(error_name);
        assert_eq!(
            names,
            ["EPERM", "ENOENT", "EAGAIN", "EINVAL", "ETIMEDOUT", "E4095"]
        );
    }

    /// The constants of this program equal those of the table.
    #[test]
    fn constants_equal_the_entries_of_the_table() {
        for (name, number) in [
            ("O_CREAT", O_CREAT),
            ("O_EXCL", O_EXCL),
            ("O_TRUNC", O_TRUNC),
            ("O_APPEND", O_APPEND),
            ("O_DIRECT", O_DIRECT),
            ("O_DIRECTORY", O_DIRECTORY),
            ("O_LARGEFILE", O_LARGEFILE),
            ("O_NOFOLLOW", O_NOFOLLOW),
            ("O_CLOEXEC", O_CLOEXEC),
            ("SOCK_CLOEXEC", O_CLOEXEC),
            ("O_TMPFILE", O_TMPFILE),
            ("AT_REMOVEDIR", AT_REMOVEDIR),
            ("AT_SYMLINK_FOLLOW", AT_SYMLINK_FOLLOW),
            ("AT_EMPTY_PATH", AT_EMPTY_PATH),
            ("RENAME_EXCHANGE", RENAME_EXCHANGE),
            ("FALLOC_FL_KEEP_SIZE", FALLOC_FL_KEEP_SIZE),
            ("FALLOC_FL_COLLAPSE_RANGE", FALLOC_FL_COLLAPSE_RANGE),
            ("FALLOC_FL_INSERT_RANGE", FALLOC_FL_INSERT_RANGE),
            ("RWF_APPEND", RWF_APPEND),
            ("PROT_EXEC", u64::from(PROT_EXEC)),
            ("SEEK_END", SEEK_END),
            ("F_DUPFD", F_DUPFD),
            ("F_SETFD", F_SETFD),
            ("F_SETFL", F_SETFL),
            ("F_DUPFD_CLOEXEC", F_DUPFD_CLOEXEC),
            ("FIOCLEX", FIOCLEX),
            ("FIONCLEX", FIONCLEX),
            ("FICLONE", FICLONE),
            ("FICLONERANGE", FICLONERANGE),
            ("CLOSE_RANGE_UNSHARE", CLOSE_RANGE_UNSHARE),
            ("CLOSE_RANGE_CLOEXEC", CLOSE_RANGE_CLOEXEC),
            ("CLONE_FILES", CLONE_FILES),
            ("CLONE_FS", CLONE_FS),
            ("S_IFMT", u64::from(S_IFMT)),
            ("S_IFDIR", u64::from(S_IFDIR)),
            ("S_IFLNK", u64::from(S_IFLNK)),
            ("S_IFREG", u64::from(S_IFREG)),
        ] {
            assert_eq!(find(name.as_bytes()), Some(number), "{name}");
        }
    }
}
