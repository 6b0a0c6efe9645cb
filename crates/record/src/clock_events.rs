//! What happened to the clocks of a run, as lines for its events. All of it is told and changes no
//! number: stamps are of a clock that nobody sets, and the map has taken the rest into account.

use plimsoll_clock::{Begin, Piece};

use crate::timeline::{AgentClock, Clocks};

/// Something that happened to one agent's clock, or to the way to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClockEvent {
    /// Time of the run, ns.
    pub t_ns: i64,
    /// clock-step, clock-jump, clock-shift, route-change
    pub kind: &'static str,
    /// For people: the agent, and what it was.
    pub text: String,
}

impl Clocks {
    /// Of all agents, in order of time.
    pub fn events(&self) -> Vec<ClockEvent> {
        let mut found: Vec<ClockEvent> = self
            .agents
            .iter()
            .flat_map(|(name, clock)| steps(name, clock).chain(turns(name, clock, self.t0_ns)))
            .collect();
        found.sort_by_key(|event| event.t_ns);
        found
    }
}

fn steps<'a>(name: &'a str, clock: &'a AgentClock) -> impl Iterator<Item = ClockEvent> + 'a {
    clock.steps.iter().map(move |&(t_ns, by_ns)| {
        let way = if by_ns < 0 { "back" } else { "forward" };
        let size = seconds(by_ns);
        ClockEvent {
            t_ns,
            kind: "clock-step",
            text: format!("agent {name}: its wall clock was set {way} by {size}; no number changes by it"),
        }
    })
}

fn turns<'a>(name: &'a str, clock: &'a AgentClock, zero_ns: i64) -> impl Iterator<Item = ClockEvent> + 'a {
    clock.pieces.windows(2).filter_map(move |pair| {
        let (before, piece) = (&pair[0], &pair[1]);
        let t_ns = piece.from_ns.wrapping_add(piece.offset_ns).wrapping_sub(zero_ns);
        let (kind, text) = match piece.begins {
            Begin::Jump => (
                "clock-jump",
                format!("its clock jumped by {} (suspended, or moved?)", jump(before, piece)),
            ),
            Begin::Shift => (
                "clock-shift",
                format!(
                    "its clock jumped by {}, or its probes were held up in one direction: no number takes a side",
                    jump(before, piece)
                ),
            ),
            Begin::RouteChange => (
                "route-change",
                "the way between it and the controller took another time from here on".into(),
            ),
            Begin::Start | Begin::Knot => return None,
        };
        let text = format!("agent {name}: {text}");
        Some(ClockEvent { t_ns, kind, text })
    })
}

/// By how much the piece is beside where the one before would have come to.
fn jump(before: &Piece, piece: &Piece) -> String {
    let since = piece.from_ns.wrapping_sub(before.from_ns) as f64;
    let drifted = before
        .offset_ns
        .wrapping_add((before.drift_ppm * 1e-6 * since) as i64);
    seconds(drifted.wrapping_sub(piece.offset_ns))
}

fn seconds(ns: i64) -> String {
    format!("{} s", ns.unsigned_abs() as f64 / 1e9)
}
