//! Names and versions of the formats that are stored or sent. A reader refuses a major version
//! greater than its own.

/// The run document that the lab sends to the engine.
pub const RUN: &str = "plimsoll.run/1";
/// JSON lines between lab and engine.
pub const ENGINE: &str = "plimsoll.engine/1";
/// Transactions, in segments (agent's clock) and in Parquet (run clock).
pub const TRANSACTIONS: &str = "plimsoll.transactions/1";
/// Samples of the monitors.
pub const SAMPLES: &str = "plimsoll.samples/1";
/// Named metrics of transactions.
pub const METRICS: &str = "plimsoll.metrics/1";
/// Readings of the three clocks of each agent.
pub const CLOCK: &str = "plimsoll.clock/1";
/// Probes of the clocks of agents.
pub const PROBES: &str = "plimsoll.probes/1";
/// The map of each agent's clock onto the controller's.
pub const CLOCK_MAP: &str = "plimsoll.clock-map/1";
/// Start of a run on the clock of each of its agents. With it the segments can be converted even
/// after a crash.
pub const START: &str = "plimsoll.start/1";
/// Description of a closed segment.
pub const SEGMENT: &str = "plimsoll.segment/1";
/// One line per second while a run is in progress.
pub const LIVE: &str = "plimsoll.live/1";
/// The totals of a run at its end.
pub const SUMMARY: &str = "plimsoll.summary/1";
/// Version of the framed protocol between controller and agent.
///
/// 2: both sides send a greeting, so that both can report why they refuse. 3: numbered messages,
/// files, probes. 4: an agent reports that it was asked to end. 6: second reports contain the
/// delays of the load generator. 7: the totals contain the lookups of host names. 8: network
/// paths are measured.
pub const LINK_VERSION: u16 = 8;

/// Whether this build, which writes the format `own` (`name/major`), can read the format `found`:
/// the names are equal and the major version of `found` is at most that of `own`.
///
/// ```
/// use plimsoll_model::format;
/// assert!(format::readable(format::RUN, "plimsoll.run/1"));
/// assert!(!format::readable(format::RUN, "plimsoll.run/2"));
/// assert!(!format::readable(format::RUN, "plimsoll.live/1"));
/// ```
pub fn readable(own: &str, found: &str) -> bool {
    match (split(own), split(found)) {
        (Some((name, major)), Some((found_name, found_major))) => name == found_name && found_major <= major,
        _ => false,
    }
}

fn split(text: &str) -> Option<(&str, u32)> {
    let (name, major) = text.rsplit_once('/')?;
    Some((name, major.parse().ok()?))
}
