//! Names and versions of everything that is stored or sent. A reader refuses a greater major
//! version than its own.

/// The run document that the lab hands to the engine.
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
/// Zero of a run on the clock of each of its agents; what makes a conversion after a crash
/// possible.
pub const START: &str = "plimsoll.start/1";
/// What is known of a closed segment.
pub const SEGMENT: &str = "plimsoll.segment/1";
/// One line per second while a run goes on.
pub const LIVE: &str = "plimsoll.live/1";
/// The books of a run as the engine closed them.
pub const SUMMARY: &str = "plimsoll.summary/1";
/// Version of the framed protocol between controller and agent.
///
/// 2: both sides greet, so that both can say why they refuse. 3: numbered messages, files, probes.
/// 4: agents say that they were asked to end. 6: seconds tell of the delays of the generator. 7:
/// books have the lookups of names.
pub const LINK_VERSION: u16 = 7;

/// Whether this build can read `found` (`name/major`), given the name and major version it writes
/// itself.
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
