//! `live.jsonl`: a line that describes the file, then one line per second.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use plimsoll_model::{SecondReport, format};
use plimsoll_record::Start;

/// The file. After a failure it is no longer written.
pub(crate) struct LiveFile {
    path: PathBuf,
    file: Option<File>,
}

impl LiveFile {
    /// Creates the file. A failure is added to `damage`; later seconds are then ignored.
    pub(crate) fn create(directory: &Path, start: &Start, damage: &mut Vec<String>) -> Self {
        let path = directory.join("live.jsonl");
        let head = serde_json::json!({
            "format": format::LIVE,
            "experiment": start.experiment,
            "run": start.run,
            "t0_unix_ns": start.t0_unix_ns,
            "agents": start.agents.iter().map(|agent| &agent.name).collect::<Vec<_>>(),
        });
        let mut live = Self { file: None, path };
        match File::create(&live.path) {
            Ok(file) => {
                live.file = Some(file);
                live.line(&head, damage);
            }
            Err(error) => damage.push(format!("creating {}: {error}", live.path.display())),
        }
        live
    }

    /// Appends one second.
    pub(crate) fn second(&mut self, report: &SecondReport, damage: &mut Vec<String>) {
        self.line(report, damage);
    }

    fn line<T: serde::Serialize>(&mut self, value: &T, damage: &mut Vec<String>) {
        let Some(file) = &mut self.file else { return };
        let written = serde_json::to_vec(value)
            .map_err(std::io::Error::other)
            .and_then(|mut text| {
                text.push(b'\n');
                file.write_all(&text)
            });
        if let Err(error) = written {
            damage.push(format!("writing {}: {error}", self.path.display()));
            self.file = None;
        }
    }
}

/// The sum over the seconds of the file, for a run whose controller ended before it was complete.
pub(crate) fn sum(directory: &Path) -> plimsoll_model::Counters {
    let text = std::fs::read_to_string(directory.join("live.jsonl")).unwrap_or_default();
    let mut counters = plimsoll_model::Counters::default();
    for report in text
        .lines()
        .skip(1)
        .filter_map(|line| serde_json::from_str::<SecondReport>(line).ok())
    {
        counters.add(&report.counters);
    }
    counters
}
