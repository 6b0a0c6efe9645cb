//! Logs that were made with `-y`, followed without the names in them and held against those names:
//! strace has them from the kernel.

use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use plimsoll_trace::event::OpenId;
use plimsoll_trace::follow::{Follower, Observation, Trouble};
use plimsoll_trace::kernel::Kernel;
use plimsoll_trace::names::Kind;
use plimsoll_trace::syscalls::Argument;
use plimsoll_trace::text::scan;
use plimsoll_trace::text::value::{self, Arguments};

/// What came out.
#[derive(Debug, Default)]
pub struct Imported {
    /// Descriptors whose open file is the one that strace names, as far as all its uses agree.
    pub same: u32,
    /// Those of them whose file has the very name that strace tells, after symbolic links.
    pub named: u32,
    /// The others: a word for each.
    pub others: Vec<String>,
    /// Files whose name is another one: a word for each.
    pub misnamed: Vec<String>,
    /// What was not understood.
    pub trouble: Trouble,
    /// Calls without an end.
    pub endless: u64,
}

/// A line without the names behind its descriptors.
fn stripped(line: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(line.len());
    let mut at = 0;
    while at < line.len() {
        let rest = &line[at..];
        let length = match rest[0] {
            b'"' => scan::string(rest),
            b'<' if out.last().is_some_and(u8::is_ascii_digit) || out.ends_with(b"AT_FDCWD") => {
                at += scan::name(rest);
                if line[at..].starts_with(b"(deleted)") {
                    at += b"(deleted)".len();
                }
                continue;
            }
            _ => 1,
        };
        out.extend_from_slice(&rest[..length]);
        at += length;
    }
    out
}

struct FileLine {
    words: String,
    names: [Option<Vec<u8>>; 2],
    here: Option<Vec<u8>>,
}

/// Reads the names of a call as strace has written it.
fn told(seen: &Observation<'_>) -> Option<FileLine> {
    let call = seen.call?;
    let of = |kind| {
        let place = seen.event.call.arguments.iter().position(|&one| one == kind)?;
        value::descriptor(Arguments::of(call.arguments).nth(place)?)
    };
    let name = |found: Option<value::Descriptor<'_>>| {
        found
            .filter(|found| !found.deleted)
            .and_then(|found| Some(found.name?.to_vec()))
    };
    let returned = call.ended.and_then(|ended| ended.name());
    let here = of(Argument::Dir).filter(|dir| dir.number == value::AT_FDCWD);
    let words = |bytes| String::from_utf8_lossy(bytes).into_owned();
    Some(FileLine {
        words: format!("{} {}({})", call.pid, words(call.name), words(call.arguments)),
        names: [name(of(Argument::Fd).or(returned)), name(of(Argument::Out))],
        here: name(here),
    })
}

/// Follows a log without its names, and holds every name against what was followed.
pub fn held(log: &[u8]) -> Imported {
    let mut all = Vec::new();
    let mut follower = Follower::new();
    let lines = || log.split(|&byte| byte == b'\n');
    for line in lines() {
        follower.line(line, 1, &mut |_: &mut Kernel, seen: &Observation<'_>| {
            all.extend(told(seen));
        });
    }
    follower.end(&mut |_: &mut Kernel, seen: &Observation<'_>| all.extend(told(seen)));

    let mut held = Imported::default();
    let mut follower = Follower::new();
    if let Some(here) = all.iter().find_map(|told| told.here.clone()) {
        let first = all[0].words.split(' ').next().and_then(|pid| pid.parse().ok());
        follower.kernel().set_directory(first.unwrap_or(1), &here);
    }
    let mut all = all.iter();
    let mut first: HashMap<OpenId, Vec<u8>> = HashMap::new();
    let mut hear = |kernel: &mut Kernel, seen: &Observation<'_>| {
        if seen.call.is_none() {
            return;
        }
        let told = all.next().expect("names change no order");
        for (open, name) in [seen.event.open, seen.event.open2].into_iter().zip(&told.names) {
            if let (Some(open), Some(name)) = (open, name) {
                compare(&mut held, kernel, &mut first, open, name, told);
            }
        }
    };
    for line in lines() {
        follower.line(&stripped(line), 1, &mut hear);
    }
    follower.end(&mut hear);
    held.trouble = follower.trouble().clone();
    held.endless = follower.endless();
    held
}

fn compare(
    held: &mut Imported,
    kernel: &Kernel,
    first: &mut HashMap<OpenId, Vec<u8>>,
    open: OpenId,
    name: &[u8],
    told: &FileLine,
) {
    let Some(file) = kernel.open_file(open).map(|open| open.file) else {
        return;
    };
    let entry = kernel.names().files()[file.index()];
    let own = kernel.name_of(file);
    let is_path = name.first() == Some(&b'/') && !name.contains(&b'<');
    let real = value::unescaped(name);
    // A file that was renamed while it was open has another name from then on; all of them must be
    // ours, too.
    let is_ours = is_path && (own == real.as_ref() || links_to(own, &real));
    let known = first.entry(open).or_insert_with(|| name.to_vec());
    if known == name || is_ours {
        held.same += 1;
    } else {
        let was = String::from_utf8_lossy(known).into_owned();
        held.others.push(format!("{was}: {}", told.words));
    }
    let is_unknown = kernel.names().path(entry.path).starts_with(b"unknown:");
    if is_path && !is_unknown {
        if is_ours {
            held.named += 1;
        } else {
            let own = String::from_utf8_lossy(own).into_owned();
            held.misnamed.push(format!("{own}: {}", told.words));
        }
    }
    let is_other = matches!(entry.kind, Kind::Pipe | Kind::Socket | Kind::Other);
    assert!(
        is_unknown || is_path != is_other || entry.kind == Kind::Device || entry.kind == Kind::Memory,
        "{entry:?}: {}",
        told.words
    );
}

/// Whether the one is the other after symbolic links; of what is gone by now, after those of its
/// directory.
fn links_to(own: &[u8], real: &[u8]) -> bool {
    let path = |bytes| Path::new(std::ffi::OsStr::from_bytes(bytes)).to_path_buf();
    let (own, real) = (path(own), path(real));
    let whole = |path: &Path| {
        fs::canonicalize(path).ok().or_else(|| {
            let directory = fs::canonicalize(path.parent()?).ok()?;
            Some(directory.join(path.file_name()?))
        })
    };
    whole(&own).is_some_and(|own| own == real || whole(&real).is_some_and(|real| own == real))
}
