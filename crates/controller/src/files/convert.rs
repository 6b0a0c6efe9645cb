//! Converts the segments of a run whose controller ended before it was complete.

use std::path::{Path, PathBuf};

use plimsoll_model::{AgentTotals, Keep, format};
use plimsoll_record::{RecordError, Start, convert, write_json};

use super::live;
use super::summary::{AgentSummary, Summary};

/// Why a directory cannot be converted.
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    /// Reading or writing failed. No existing file was lost.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The summary has another version, or is not a summary.
    #[error("{path}: {what}")]
    Summary {
        /// The file.
        path: PathBuf,
        /// Description of the error.
        what: String,
    },
}

/// Converts the segments in the directory of a run and computes its summary again. Returns `None`
/// if there are no segments, so that there is nothing to do. It can be killed and repeated at any
/// time.
///
/// # Errors
/// [`ConvertError`].
pub fn convert_directory(run: &Path) -> Result<Option<Summary>, ConvertError> {
    let segments = run.join("segments");
    if !segments.exists() && run.join("summary.json").exists() {
        return Ok(None);
    }
    let start = Start::read(&segments)?;
    let mut summary = match read(&run.join("summary.json"))? {
        Some(summary) => summary,
        None => interrupted(run, &start),
    };
    let conversion = convert(run, &start)?;
    summary.settle(&conversion);
    let outstanding = summary.outstanding(&start);
    if !outstanding {
        summary.remove_loss_damage();
    }
    write_json(&run.join("summary.json"), &summary)?;
    conversion.clean_up(outstanding);
    Ok(Some(summary))
}

fn read(path: &Path) -> Result<Option<Summary>, ConvertError> {
    let Ok(text) = std::fs::read(path) else {
        return Ok(None);
    };
    let wrong = |what: String| ConvertError::Summary {
        path: path.to_owned(),
        what,
    };
    let summary: Summary = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    if !format::readable(format::SUMMARY, &summary.format) {
        return Err(wrong(format!(
            "expected format {}, got \"{}\"",
            format::SUMMARY,
            summary.format
        )));
    }
    Ok(Some(summary))
}

fn interrupted(run: &Path, start: &Start) -> Summary {
    let mut agents: Vec<AgentSummary> = start
        .agents
        .iter()
        .map(|agent| AgentSummary {
            name: agent.name.clone(),
            host: agent.host.clone(),
            site: agent.site.clone(),
            role: agent.role,
            t0_raw_ns: agent.t0_raw_ns,
            lost: true,
            lost_ns: None,
            reported_ns: None,
            window_ns: None,
            totals: AgentTotals::default(),
        })
        .collect();
    if let (Keep::Summaries, Some(first)) = (start.keep, agents.first_mut()) {
        first.totals.counters = live::sum(run);
    }
    let mut summary = Summary::new(start, agents);
    summary.status = "interrupted".into();
    summary.reason = "the engine ended before the run was complete".into();
    summary
}
