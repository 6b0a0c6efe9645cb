//! A call, by what its arguments mean.

use crate::syscalls::{Argument, Effect, Syscall};
use crate::text::Call;
use crate::text::value::{self, AT_FDCWD, Arguments};

/// The most that a call has.
const MOST: usize = 6;

/// A call of which it is known what it does.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    call: Call<'a>,
    known: &'static Syscall,
    /// Those that the table names; none where the call goes on and they are not told yet.
    parts: [Option<&'a [u8]>; MOST],
}

impl<'a> Request<'a> {
    /// `known` is what `call` is.
    pub fn new(call: Call<'a>, known: &'static Syscall) -> Self {
        let mut parts = [None; MOST];
        for (part, found) in parts
            .iter_mut()
            .zip(Arguments::of(call.arguments))
            .take(known.arguments.len())
        {
            *part = Some(found);
        }
        Self { call, known, parts }
    }

    /// Of the thread.
    pub fn pid(&self) -> u32 {
        self.call.pid
    }

    /// What the call does.
    pub fn effect(&self) -> Effect {
        self.known.effect
    }

    /// Of the call.
    pub fn name(&self) -> &'static str {
        self.known.name
    }

    /// Everything between the parentheses.
    pub fn arguments(&self) -> &'a [u8] {
        self.call.arguments
    }

    /// The argument of this kind.
    pub fn argument(&self, kind: Argument) -> Option<&'a [u8]> {
        let place = self.known.arguments.iter().position(|&one| one == kind)?;
        self.parts.get(place).copied().flatten()
    }

    /// The number of the descriptor that is the argument of this kind; none for the current directory.
    pub fn number(&self, kind: Argument) -> Option<i32> {
        let found = self.argument(kind).and_then(value::descriptor)?;
        Some(found.number).filter(|&number| number != AT_FDCWD)
    }

    /// Whether it has this flag.
    pub fn flag(&self, flag: &[u8]) -> bool {
        self.flags().is_some_and(|flags| value::has(flags, flag))
    }

    /// Whether execve is to close what it makes: `O_CLOEXEC`, `SOCK_CLOEXEC`, and so on; some are made so always.
    pub fn is_marked(&self) -> bool {
        const ALWAYS: [&str; 5] = [
            "bpf",
            "io_uring_setup",
            "landlock_create_ruleset",
            "pidfd_getfd",
            "pidfd_open",
        ];
        let is_mark = |one: &[u8]| one.ends_with(b"_CLOEXEC");
        let marked = |flags: &[u8]| flags.split(|&byte| byte == b'|').any(is_mark);
        ALWAYS.contains(&self.known.name) || self.flags().is_some_and(marked)
    }

    /// Whether a thread that it makes has the same table of descriptors.
    pub fn shares_files(&self) -> bool {
        memchr::memmem::find(self.call.arguments, b"CLONE_FILES").is_some()
    }

    fn flags(&self) -> Option<&'a [u8]> {
        let how = || value::field(self.argument(Argument::How)?, b"flags");
        self.argument(Argument::Flags).or_else(how)
    }
}
