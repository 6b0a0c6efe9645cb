//! Events of the clocks of a run. They are reported, but change no figure: stamps are of a clock
//! that no program sets, and the clock map accounts for jumps and routes.

use plimsoll_clock::{Begin, Piece};

use crate::timeline::{AgentClock, Clocks};

/// A change of the clock of one agent, or of the route between agent and controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClockEvent {
    /// Time of the run, ns.
    pub t_ns: i64,
    /// Kind of the event: clock-step, clock-jump, clock-shift or route-change.
    pub kind: &'static str,
    /// Message with the agent and the change.
    pub text: String,
}

impl Clocks {
    /// The events of all agents, in order of time.
    pub fn events(&self) -> Vec<ClockEvent> {
        let mut events: Vec<ClockEvent> = self
            .agents
            .iter()
            .flat_map(|(name, clock)| steps(name, clock).chain(turns(name, clock, self.t0_ns)))
            .collect();
        events.sort_by_key(|event| event.t_ns);
        events
    }
}

fn steps<'a>(name: &'a str, clock: &'a AgentClock) -> impl Iterator<Item = ClockEvent> + 'a {
    clock.steps.iter().map(move |&(t_ns, by_ns)| {
        let direction = if by_ns < 0 { "back" } else { "forward" };
        let size = seconds(by_ns);
        ClockEvent {
            t_ns,
            kind: "clock-step",
            text: format!(
                "agent {name}: the wall clock of the host was set {direction} by {size}; no figure is \
                 affected"
            ),
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
                format!(
                    "the clock jumped by {}: was the machine suspended or migrated?",
                    jump(before, piece)
                ),
            ),
            Begin::Shift => (
                "clock-shift",
                format!(
                    "the clock jumped by {}, or probes were delayed in one direction only: \
                     the bound includes both cases",
                    jump(before, piece)
                ),
            ),
            Begin::RouteChange => (
                "route-change",
                "the delay between agent and controller changed at this time".into(),
            ),
            Begin::Start | Begin::Knot => return None,
        };
        let text = format!("agent {name}: {text}");
        Some(ClockEvent { t_ns, kind, text })
    })
}

/// The difference between the offset at the start of `piece` and the extrapolation of `before`, as
/// text.
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
