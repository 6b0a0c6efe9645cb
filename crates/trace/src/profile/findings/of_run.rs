//! Rules about the run as a whole.

use std::collections::{BTreeSet, HashMap};

use super::words::{bytes, grouped, percent, time};
use super::{finding, ratio};
use crate::profile::SMALL_REQUEST;
use crate::profile::json::{Finding, Profile, Requests};

/// All rules about the run.
pub(super) const RULES: [fn(&Profile) -> Option<Finding>; 9] = [
    mostly_tracing,
    useless_seeks,
    small_reads,
    small_writes,
    syncs,
    mostly_metadata,
    failed_lookups,
    small_files,
    submissions,
];

/// Smaller counts are negligible for a run: at 10 us each they take 10 ms.
const MIN_COUNT: u64 = 1000;
/// A smaller share of the time of calls is not the bottleneck of a run.
const MIN_TIME_SHARE: f64 = 0.2;
/// If calls on files take a smaller share of the run, there is little to gain.
const MIN_RUN_SHARE: f64 = 0.1;

fn mostly_tracing(profile: &Profile) -> Option<Finding> {
    let share = profile
        .time
        .tracing_share
        .filter(|_| profile.time.interval_only)?;
    let wall = &profile.time.wall;
    let text = format!(
        "Tracing took about {} of the run. Without tracing, the run takes {}",
        percent(share),
        time(wall, true)
    );
    let numbers = [("share", share), ("low_s", wall.low_s?), ("high_s", wall.high_s?)];
    Some(finding("mostly-tracing", &numbers, text))
}

/// Half of the seeks, as in the rule about files.
const MIN_USELESS_SHARE: f64 = 0.5;

fn useless_seeks(profile: &Profile) -> Option<Finding> {
    let io = &profile.totals.io;
    let share = ratio(io.useless_seeks, io.seeks);
    if io.seeks < MIN_COUNT || share < MIN_USELESS_SHARE {
        return None;
    }
    let text = format!("{} of {} seeks are useless", percent(share), grouped(io.seeks));
    let numbers = [
        ("share", share),
        ("seeks", io.seeks as f64),
        ("still", io.still_seeks as f64),
    ];
    Some(finding("useless-seeks", &numbers, text))
}

fn small_reads(profile: &Profile) -> Option<Finding> {
    small(profile, "small-reads", "reads", profile.totals.io.read.as_ref()?)
}

fn small_writes(profile: &Profile) -> Option<Finding> {
    small(
        profile,
        "small-writes",
        "writes",
        profile.totals.io.write.as_ref()?,
    )
}

/// Half of the requests: a larger buffer would need fewer.
const MIN_SMALL_SHARE: f64 = 0.5;

fn small(profile: &Profile, kind: &str, direction: &str, requests: &Requests) -> Option<Finding> {
    let share = ratio(requests.small, requests.size.count);
    if requests.small < MIN_COUNT || share < MIN_SMALL_SHARE {
        return None;
    }
    let mut text = format!(
        "{} of {direction} request less than {}",
        percent(share),
        bytes(SMALL_REQUEST)
    );
    let mut numbers = vec![("share", share), ("requests", requests.small as f64)];
    if let Some(of_time) = share_of_calls(profile, requests.small_s) {
        if of_time < MIN_TIME_SHARE {
            return None;
        }
        text = format!(
            "{text} and take {} of the time in calls on files",
            percent(of_time)
        );
        numbers.push(("share_of_time", of_time));
    }
    Some(finding(kind, &numbers, text))
}

/// The share of a time in the time of all calls on files; 0 if these take a negligible part of the
/// run. None without times.
fn share_of_calls(profile: &Profile, seconds: Option<f64>) -> Option<f64> {
    let io = &profile.totals.io;
    let all = io.calls_s().filter(|&all| all > 0.0)?;
    let is_relevant = io.run_share.is_none_or(|share| share >= MIN_RUN_SHARE);
    Some(if is_relevant { seconds? / all } else { 0.0 })
}

/// Fewer syncs belong to the end of one or two files.
const MIN_SYNCS: u64 = 10;

fn syncs(profile: &Profile) -> Option<Finding> {
    let io = &profile.totals.io;
    let share = share_of_calls(profile, io.sync_time.map(|time| time.best_s()))?;
    if io.syncs < MIN_SYNCS || share < MIN_TIME_SHARE {
        return None;
    }
    let took = time(io.sync_time.as_ref()?, profile.time.interval_only);
    let text = format!(
        "{} calls that wait for the disk (fsync and similar) take {} of the time in calls on files: {took}",
        grouped(io.syncs),
        percent(share)
    );
    Some(finding(
        "syncs",
        &[("share_of_time", share), ("syncs", io.syncs as f64)],
        text,
    ))
}

/// Half of the time: the speed of path lookups matters, not the speed of data.
const MIN_MAJORITY: f64 = 0.5;

fn mostly_metadata(profile: &Profile) -> Option<Finding> {
    let io = &profile.totals.io;
    let calls: u64 = io.metadata.values().sum();
    let share = share_of_calls(profile, io.metadata_time.map(|time| time.best_s()))?;
    if calls < MIN_COUNT || share < MIN_MAJORITY {
        return None;
    }
    let took = time(io.metadata_time.as_ref()?, profile.time.interval_only);
    let text = format!(
        "{} calls without data (open, stat, close and similar) take {} of the time in calls on files: {took}",
        grouped(calls),
        percent(share)
    );
    Some(finding(
        "mostly-metadata",
        &[("share_of_time", share), ("calls", calls as f64)],
        text,
    ))
}

/// 20 % of the calls without data: usually a search path whose first directories never contain the
/// file.
const MIN_FAILED_SHARE: f64 = 0.2;

fn failed_lookups(profile: &Profile) -> Option<Finding> {
    let mut all = 0;
    let mut by_last_part: HashMap<&str, (u64, BTreeSet<&str>)> = HashMap::new();
    for file in &profile.files {
        let not_found = file
            .io
            .failed
            .iter()
            .filter(|failed| matches!(failed.error.as_str(), "ENOENT" | "ENOTDIR"));
        let count: u64 = not_found.map(|failed| failed.count).sum();
        if count > 0 {
            let (directory, last) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
            let entry = by_last_part.entry(last).or_default();
            entry.0 += count;
            entry.1.insert(directory);
            all += count;
        }
    }
    let share = ratio(all, profile.totals.io.metadata.values().sum());
    // The name breaks ties, so that a trace always has the same text.
    let (last, (most, directories)) = by_last_part
        .into_iter()
        .max_by_key(|(last, (count, _))| (*count, std::cmp::Reverse(*last)))?;
    if all < MIN_COUNT / 5 || share < MIN_FAILED_SHARE {
        return None;
    }
    let location = match directories.len() {
        1 => "in one directory".to_owned(),
        many => format!("in {} directories", grouped(many as u64)),
    };
    let text = format!(
        "{} lookups found no file: {} of the calls without data. Most frequent: {last}, {} times {location}",
        grouped(all),
        percent(share),
        grouped(most)
    );
    let numbers = [
        ("lookups", all as f64),
        ("share", share),
        ("most", most as f64),
        ("directories", directories.len() as f64),
    ];
    Some(finding("failed-lookups", &numbers, text))
}

/// Size of a file that an ordinary reader reads with one request, bytes.
const SMALL_FILE: u64 = 64 * 1024;

fn small_files(profile: &Profile) -> Option<Finding> {
    let read = profile
        .files
        .iter()
        .filter(|file| file.io.reads > 0 && file.kind == "file");
    let (mut files, mut small) = (0, 0);
    for file in read {
        files += file.incarnations;
        let size = file.size.unwrap_or(file.io.unique_read_bytes);
        small += if size < SMALL_FILE { file.incarnations } else { 0 };
    }
    if small < MIN_COUNT || ratio(small, files) < MIN_MAJORITY {
        return None;
    }
    let text = format!(
        "{} of {} files that were read are smaller than {}",
        grouped(small),
        grouped(files),
        bytes(SMALL_FILE)
    );
    Some(finding(
        "small-files",
        &[("small", small as f64), ("files", files as f64)],
        text,
    ))
}

fn submissions(profile: &Profile) -> Option<Finding> {
    let spot = profile.blind_spots.iter().find(|spot| spot.kind == "io-uring")?;
    Some(finding(
        "io-uring",
        &[("requests", spot.count as f64)],
        spot.text.clone(),
    ))
}
