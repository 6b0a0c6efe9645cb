//! Builds the profile from the counts.

use std::collections::HashMap;

use super::counts::Counts;
use super::json::{
    BlindSpot, FORMAT, FileProfile, Missing, Profile, RunTime, Source, Times, Totals, UnparsedInput,
};
use super::json_builder::{FileGroup, JsonBuilder};
use super::process::{self, Tree};
use super::shown::shown;
use super::{MAX_MISSING, Profiler, axis, bursts, findings};
use crate::event::{FileId, PathId};
use crate::header::{Footer, Recorder};
use crate::names::Names;

/// Share of tracing in the run above which only a range of times is reported: the remainder
/// consists mainly of the error of the correction.
const MIN_RUN_SHARE: f64 = 0.5;

/// Errors of lookups that find no file: the path does not exist (ENOENT), or a part of it is not a
/// directory (ENOTDIR).
const NOT_FOUND: [u16; 2] = [2, 20];

impl Profiler {
    /// The profile of the events so far. `names` are all tables of the trace. `footer` is the end
    /// of the trace; None if it was cut.
    pub fn finish(mut self, names: &Names, footer: Option<&Footer>) -> Profile {
        let has_durations = self.header.has_durations;
        let is_corrected = self.header.calibration.is_some();
        let tree = process::tree(&self.workers, names, has_durations, is_corrected);
        let wall = self.wall.times(is_corrected);
        let mut groups = self.by_path(names);
        let calls = std::mem::take(&mut self.calls);
        let builder = JsonBuilder {
            names,
            calls: &calls,
            has_durations,
            is_corrected,
            wall,
        };

        let mut all = Counts::default();
        for group in groups.values() {
            all.merge(&group.totals);
        }
        let io = builder.io(&all);
        let mut files: Vec<_> = groups
            .iter_mut()
            .map(|(&path, group)| builder.file(path, group, &tree, &self.axis))
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
            chosen: self.chooser.choice.to_json(),
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
            missing: missing(&groups, names),
            blind_spots: Vec::new(),
            files,
            calls: calls.to_json(has_durations, is_corrected),
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

    /// Combines the files whose last path was the same, one after another, with the lookups of the
    /// path while there was no file.
    fn by_path(&mut self, names: &Names) -> HashMap<PathId, FileGroup> {
        let end_ns = self.wall.ends_ns().map_or(0, |ends| ends.1);
        let mut groups: HashMap<PathId, FileGroup> = HashMap::new();
        let file_names = std::mem::take(&mut self.file_names);
        let file_names = self.chooser.choice.file_names.as_deref().unwrap_or(&file_names);
        let files = std::mem::take(&mut self.files).into_iter();
        for (index, (file, entry)) in files.zip(names.files()).enumerate() {
            if let (Some(file), Some(id)) = (file, FileId::new(index)) {
                let name = file_names.name(names, id).unwrap_or(entry.path);
                let group = groups.entry(name).or_default();
                group.add_names(name, file_names.all(id));
                group.kind = Some(entry.kind);
                group.incarnations += 1;
                group.open_ns = group.open_ns.saturating_add(file.open_ns(end_ns));
                group.add(*file, &self.axis);
            }
        }
        for (index, file) in std::mem::take(&mut self.nameless).into_iter().enumerate() {
            if let Some((file, path)) = file.zip(PathId::new(index)) {
                groups.entry(path).or_default().add(*file, &self.axis);
            }
        }
        groups
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
        // The mappings of programs and libraries show nothing about data.
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
                "requests were submitted to io_uring, or to io_submit without being in the log: their reads and writes are not in the trace",
            ),
            (
                "io-uring",
                rings,
                "io_uring instances were set up and no request was recorded: their reads and writes are not in the trace",
            ),
            (
                "silent-program",
                if is_preload { silent } else { 0 },
                "programs were started and no call of them was recorded: they may be statically linked",
            ),
        ];
        let others = [(
            "unknown-offset",
            unknown,
            "reads and writes have an unknown offset: their files were opened before the trace began",
        )];
        let counted = |all: Vec<(&str, u64, &str)>| {
            let counted = all.into_iter().filter(|(_, count, _)| *count > 0);
            let spots = counted.map(|(kind, count, text)| {
                spot(kind, count, None, format!("{} {text}", findings::grouped(count)))
            });
            spots.collect::<Vec<_>>()
        };
        // Only the first ones of many mapped files are shown, so these come first.
        let mut all = counted(first.to_vec());
        if is_preload {
            all.push(spot("past-libc", 0, None, PAST_LIBC.into()));
        }
        all.extend(spots);
        all.extend(counted(others.to_vec()));
        all
    }
}

/// The blind spot of each recording by the preload recorder.
const PAST_LIBC: &str = "calls that do not go through libc's functions are not recorded by preload: static programs, Go, io_uring, \
     calls inside libc. --source strace records them";

/// Paths by the number of failed lookups.
fn missing(groups: &HashMap<PathId, FileGroup>, names: &Names) -> Vec<Missing> {
    let failed_lookups = |group: &FileGroup| {
        let failed = group.totals.failed.iter();
        let failed = failed.filter(|((_, errno), _)| NOT_FOUND.contains(errno));
        failed.map(|failure| failure.1).sum::<u64>()
    };
    let mut missing: Vec<_> = groups
        .iter()
        .map(|(&path, group)| (failed_lookups(group), path))
        .filter(|&(count, _)| count > 0)
        .collect();
    missing.sort_by_key(|&(count, path)| (std::cmp::Reverse(count), path));
    missing.truncate(MAX_MISSING);
    let missing = missing.into_iter().map(|(count, path)| Missing {
        path: shown(names.path(path)),
        count,
    });
    missing.collect()
}

fn unparsed(footer: Option<&Footer>) -> UnparsedInput {
    let whole = footer.is_some();
    let footer = footer.cloned().unwrap_or_default();
    UnparsedInput {
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
