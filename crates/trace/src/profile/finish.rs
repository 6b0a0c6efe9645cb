//! From what was counted to what is told.

use std::collections::HashMap;

use super::counts::Counts;
use super::json::{
    BlindSpot, FORMAT, FileProfile, Missing, Profile, RunTime, Source, Times, Totals, Unparsed,
};
use super::process::{self, Tree};
use super::shown::shown;
use super::telling::{Same, Telling};
use super::{MISSING, Profiler, axis, bursts, findings};
use crate::event::{FileId, PathId};
use crate::header::{Footer, Recorder};
use crate::names::Names;

/// Tracing was most of the run from here on: what is left is mostly the error of the correction.
const MIN_RUN_SHARE: f64 = 0.5;

/// Errors of what is looked for in vain: there is no such name, or a part of it is no directory.
const IN_VAIN: [u16; 2] = [2, 20];

impl Profiler {
    /// The profile of what was taken. `names` are all tables of the trace, `footer` is its end;
    /// none where it was cut off.
    pub fn finish(mut self, names: &Names, footer: Option<&Footer>) -> Profile {
        let has_durations = self.header.has_durations;
        let is_corrected = self.header.calibration.is_some();
        let tree = process::tree(&self.workers, names, has_durations, is_corrected);
        let wall = self.wall.times(is_corrected);
        let mut same = self.by_path(names);
        let calls = std::mem::take(&mut self.calls);
        let telling = Telling {
            names,
            calls: &calls,
            has_durations,
            is_corrected,
            wall,
        };

        let mut all = Counts::default();
        for same in same.values() {
            all.merge(&same.totals);
        }
        let io = telling.io(&all);
        let mut files: Vec<_> = same
            .iter_mut()
            .map(|(&path, same)| telling.file(path, same, &tree, &self.axis))
            .collect();
        files.sort_by(|a, b| {
            let time = |file: &FileProfile| file.io.calls_s().unwrap_or(0.0);
            let bytes = |file: &FileProfile| file.io.read_bytes.saturating_add(file.io.write_bytes);
            time(b)
                .total_cmp(&time(a))
                .then(bytes(b).cmp(&bytes(a)))
                .then_with(|| a.path.cmp(&b.path))
        });
        let timeline = axis::timeline(&self.axis, &mut self.line);
        let mut profile = Profile {
            format: FORMAT.to_owned(),
            source: self.source(footer),
            chosen: self.chooser.choice.told(),
            time: self.run_time(wall, &tree),
            totals: Totals {
                calls: tree.processes.iter().map(|process| process.work.calls).sum(),
                failed_calls: tree
                    .processes
                    .iter()
                    .map(|process| process.work.failed_calls)
                    .sum(),
                files: files.len() as u64,
                processes: tree.processes.len() as u64,
                threads: tree
                    .processes
                    .iter()
                    .map(|process| process.threads.len() as u64)
                    .sum(),
                io,
                elsewhere: self.elsewhere,
            },
            missing: missing(&same, names),
            blind_spots: Vec::new(),
            files,
            calls: calls.told(has_durations, is_corrected),
            bursts: bursts::bursts(&timeline),
            timeline,
            unparsed: unparsed(footer),
            findings: Vec::new(),
            processes: tree.processes,
        };
        profile.blind_spots = self.blind_spots(&profile);
        profile.findings = findings::findings(&profile);
        profile
    }

    /// Files whose last name was the same, one after another, and what was asked of the name when
    /// there was none, belong together.
    fn by_path(&mut self, names: &Names) -> HashMap<PathId, Same> {
        let end_ns = self.wall.ends_ns().map_or(0, |ends| ends.1);
        let mut same: HashMap<PathId, Same> = HashMap::new();
        let called = std::mem::take(&mut self.called);
        let called = self.chooser.choice.called.as_deref().unwrap_or(&called);
        let files = std::mem::take(&mut self.files).into_iter();
        for (place, (file, entry)) in files.zip(names.files()).enumerate() {
            if let (Some(file), Some(id)) = (file, FileId::new(place)) {
                let name = called.name(names, id).unwrap_or(entry.path);
                let same = same.entry(name).or_default();
                same.named(name, called.all(id));
                same.kind = Some(entry.kind);
                same.incarnations += 1;
                same.open_ns = same.open_ns.saturating_add(file.open_ns(end_ns));
                same.add(*file, &self.axis);
            }
        }
        for (place, file) in std::mem::take(&mut self.nameless).into_iter().enumerate() {
            if let Some((file, path)) = file.zip(PathId::new(place)) {
                same.entry(path).or_default().add(*file, &self.axis);
            }
        }
        same
    }

    fn source(&self, footer: Option<&Footer>) -> Source {
        let header = &self.header;
        Source {
            recorder: header.recorder,
            recorder_version: header.recorder_version.clone(),
            options: header.options.clone(),
            command: header.command.clone(),
            attached: header.attached,
            host: header.host.clone(),
            zero_unix_ns: header.zero_unix_ns,
            resolution_s: header.resolution_ns as f64 / 1e9,
            has_durations: header.has_durations,
            calibration: header.calibration,
            status: footer.and_then(|footer| footer.status),
            elapsed_s: footer
                .and_then(|footer| footer.elapsed_ns)
                .map(|ns| ns as f64 / 1e9),
        }
    }

    fn run_time(&self, wall: Times, tree: &Tree) -> RunTime {
        let (start_ns, end_ns) = self.wall.ends_ns().unwrap_or_default();
        let works = || tree.processes.iter().map(|process| &process.work);
        let tracing_share = wall
            .corrected_s
            .filter(|_| wall.recorded_s > 0.0)
            .map(|corrected| 1.0 - corrected / wall.recorded_s);
        RunTime {
            start_s: start_ns as f64 / 1e9,
            end_s: end_ns as f64 / 1e9,
            wall,
            calls: works().filter_map(|work| work.calls_time).reduce(Times::and),
            waiting: works().filter_map(|work| work.waiting_time).reduce(Times::and),
            tracing_share,
            traced_call_s: self
                .wall
                .cost_of_a_call()
                .filter(|_| self.header.calibration.is_some()),
            interval_only: tracing_share.is_some_and(|share| share > MIN_RUN_SHARE),
        }
    }

    fn blind_spots(&self, profile: &Profile) -> Vec<BlindSpot> {
        let spot = |kind: &str, count: u64, bytes: Option<u64>, text: String| BlindSpot {
            kind: kind.to_owned(),
            file: None,
            count,
            bytes,
            text,
        };
        // That programs and libraries are mapped says nothing about data.
        let mapped = profile
            .files
            .iter()
            .filter(|file| file.io.maps > 0 && !file.executable);
        let mut spots: Vec<_> = mapped
            .map(|file| BlindSpot {
                file: Some(file.path.clone()),
                ..spot(
                    "mapped",
                    file.io.maps,
                    Some(file.io.mapped_bytes),
                    findings::mapped_text(file),
                )
            })
            .collect();
        spots.sort_by_key(|spot| std::cmp::Reverse(spot.bytes));
        let silent = self.workers.iter().filter(|worker| worker.is_silent).count() as u64;
        let unknown = profile.totals.io.unknown_offsets;
        let is_preload = self.header.recorder == Recorder::Preload;
        let rings = if self.submissions == 0 { self.rings } else { 0 };
        let first = [
            (
                "io-uring",
                self.submissions,
                "requests were handed to io_uring, or to io_submit in a log without them: what they did is not in the trace",
            ),
            (
                "io-uring",
                rings,
                "times io_uring was set up, and no request was seen: what was read and written by it is not in the trace",
            ),
            (
                "silent-program",
                if is_preload { silent } else { 0 },
                "programs were started and made no call that was seen: they may be statically linked",
            ),
        ];
        let others = [(
            "unknown-offset",
            unknown,
            "reads and writes are at an unknown place: their files were open before the trace began",
        )];
        let counted = |all: Vec<(&str, u64, &str)>| {
            let seen = all.into_iter().filter(|one| one.1 > 0);
            let told = seen.map(|(kind, count, text)| {
                spot(kind, count, None, format!("{} {text}", findings::grouped(count)))
            });
            told.collect::<Vec<_>>()
        };
        // Of many mapped files only the first ones are shown.
        let mut all = counted(first.to_vec());
        if is_preload {
            all.push(spot("past-libc", 0, None, PAST_LIBC.into()));
        }
        all.extend(spots);
        all.extend(counted(others.to_vec()));
        all
    }
}

/// Of every recording by the preload recorder.
const PAST_LIBC: &str = "calls that do not go through libc's functions are not recorded by preload: static programs, Go, io_uring, \
     what libc does inside itself; --source strace records them";

/// Names by how often nothing was found under them.
fn missing(same: &HashMap<PathId, Same>, names: &Names) -> Vec<Missing> {
    let in_vain = |same: &Same| {
        let failed = same.totals.failed.iter();
        let failed = failed.filter(|((_, errno), _)| IN_VAIN.contains(errno));
        failed.map(|failure| failure.1).sum::<u64>()
    };
    let mut missing: Vec<_> = same
        .iter()
        .map(|(&path, same)| (in_vain(same), path))
        .filter(|&(count, _)| count > 0)
        .collect();
    missing.sort_by_key(|&(count, path)| (std::cmp::Reverse(count), path));
    missing.truncate(MISSING);
    let told = missing.into_iter().map(|(count, path)| Missing {
        path: shown(names.path(path)),
        count,
    });
    told.collect()
}

fn unparsed(footer: Option<&Footer>) -> Unparsed {
    let whole = footer.is_some();
    let footer = footer.cloned().unwrap_or_default();
    Unparsed {
        whole,
        lines: footer.lines,
        odd_lines: footer.odd_lines,
        cut_lines: footer.cut_lines,
        examples: footer.examples,
        unknown_calls: footer.unknown_calls,
        halves: footer.halves,
        endless: footer.endless,
    }
}
