//! Follows logs that were made with `-y` without their paths, and compares the results with these
//! paths, which strace got from the kernel.

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

/// The result of the comparison.
#[derive(Debug, Default)]
pub struct Comparison {
    /// Number of descriptors whose open file is that of strace, if all its uses agree.
    pub same: u32,
    /// Number of these whose path equals that of strace, after symbolic links.
    pub named: u32,
    /// Descriptions of the other descriptors.
    pub others: Vec<String>,
    /// Descriptions of the files whose path differs.
    pub misnamed: Vec<String>,
    /// The counts of input that could not be interpreted.
    pub trouble: Trouble,
    /// Number of calls without an end.
    pub endless: u64,
}

/// A line without the paths after its descriptors.
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
    description: String,
    names: [Option<Vec<u8>>; 2],
    here: Option<Vec<u8>>,
}

/// The paths of a call in the text of strace.
fn file_line(seen: &Observation<'_>) -> Option<FileLine> {
    let call = seen.call?;
    let of = |kind| {
        let index = seen
            .event
            .call
            .arguments
            .iter()
            .position(|&argument| argument == kind)?;
        value::descriptor(Arguments::of(call.arguments).nth(index)?)
    };
    let name = |found: Option<value::Descriptor<'_>>| {
        found
            .filter(|descriptor| !descriptor.deleted)
            .and_then(|descriptor| Some(descriptor.name?.to_vec()))
    };
    let returned = call.ended.and_then(|ended| ended.name());
    let here = of(Argument::Dir).filter(|dir| dir.number == value::AT_FDCWD);
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    Some(FileLine {
        description: format!("{} {}({})", call.pid, text(call.name), text(call.arguments)),
        names: [name(of(Argument::Fd).or(returned)), name(of(Argument::Out))],
        here: name(here),
    })
}

/// Follows a log without its paths, and compares each path with the one that was followed.
pub fn compare_with_names(log: &[u8]) -> Comparison {
    let mut all = Vec::new();
    let mut follower = Follower::new();
    let lines = || log.split(|&byte| byte == b'\n');
    for line in lines() {
        follower.line(line, 1, &mut |_: &mut Kernel, seen: &Observation<'_>| {
            all.extend(file_line(seen));
        });
    }
    follower.end(&mut |_: &mut Kernel, seen: &Observation<'_>| all.extend(file_line(seen)));

    let mut result = Comparison::default();
    let mut follower = Follower::new();
    if let Some(here) = all.iter().find_map(|line| line.here.clone()) {
        let first = all[0]
            .description
            .split(' ')
            .next()
            .and_then(|pid| pid.parse().ok());
        follower.kernel().set_directory(first.unwrap_or(1), &here);
    }
    let mut all = all.iter();
    let mut first: HashMap<OpenId, Vec<u8>> = HashMap::new();
    let mut hear = |kernel: &mut Kernel, seen: &Observation<'_>| {
        if seen.call.is_none() {
            return;
        }
        let line = all.next().expect("paths do not change the order");
        for (open, name) in [seen.event.open, seen.event.open2].into_iter().zip(&line.names) {
            if let (Some(open), Some(name)) = (open, name) {
                compare(&mut result, kernel, &mut first, open, name, line);
            }
        }
    };
    for line in lines() {
        follower.line(&stripped(line), 1, &mut hear);
    }
    follower.end(&mut hear);
    result.trouble = follower.trouble().clone();
    result.endless = follower.endless();
    result
}

fn compare(
    result: &mut Comparison,
    kernel: &Kernel,
    first: &mut HashMap<OpenId, Vec<u8>>,
    open: OpenId,
    name: &[u8],
    line: &FileLine,
) {
    let Some(file) = kernel.open_file(open).map(|open| open.file) else {
        return;
    };
    let entry = kernel.names().files()[file.index()];
    let own = kernel.name_of(file);
    let is_path = name.first() == Some(&b'/') && !name.contains(&b'<');
    let real = value::unescaped(name);
    // A file that was renamed while it was open has another path from then on; each of them must be
    // equal, too.
    let is_ours = is_path && (own == real.as_ref() || links_to(own, &real));
    let known = first.entry(open).or_insert_with(|| name.to_vec());
    if known == name || is_ours {
        result.same += 1;
    } else {
        let was = String::from_utf8_lossy(known).into_owned();
        result.others.push(format!("{was}: {}", line.description));
    }
    let is_unknown = kernel.names().path(entry.path).starts_with(b"unknown:");
    if is_path && !is_unknown {
        if is_ours {
            result.named += 1;
        } else {
            let own = String::from_utf8_lossy(own).into_owned();
            result.misnamed.push(format!("{own}: {}", line.description));
        }
    }
    let is_other = matches!(entry.kind, Kind::Pipe | Kind::Socket | Kind::Other);
    assert!(
        is_unknown || is_path != is_other || entry.kind == Kind::Device || entry.kind == Kind::Memory,
        "{entry:?}: {}",
        line.description
    );
}

/// Whether both paths are the same after symbolic links; of a file that no longer exists, after
/// those of its directory.
fn links_to(own: &[u8], real: &[u8]) -> bool {
    let path = |bytes| Path::new(std::ffi::OsStr::from_bytes(bytes)).to_path_buf();
    let (own, real) = (path(own), path(real));
    let resolve = |path: &Path| {
        fs::canonicalize(path).ok().or_else(|| {
            let directory = fs::canonicalize(path.parent()?).ok()?;
            Some(directory.join(path.file_name()?))
        })
    };
    resolve(&own).is_some_and(|own| own == real || resolve(&real).is_some_and(|real| own == real))
}
