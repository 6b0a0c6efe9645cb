//! Agents that are asked to end during a run, by a batch system at the end of their time or by a
//! user. They count as lost from then on. Their measurements are not lost: there is some time to
//! transfer them.

use std::time::Instant;

use plimsoll_link::message::HANDOVER_TIMEOUT;
use plimsoll_model::{AgentTotals, grouped};

use super::{ActiveRun, AgentEnd, gather};
use crate::session::Session;

/// An agent that was asked to end.
pub(super) struct LeavingAgent {
    /// Text of the event.
    text: String,
    /// Time of the event, ns from the start of the run.
    since_ns: i64,
    /// Time limit of the transfer.
    until: Instant,
    /// Its final counts and the end of its measured window, ns, once it has sent them.
    closed: Option<(AgentTotals, i64)>,
}

impl ActiveRun {
    /// Handles the message that an agent was asked to end and has stopped its testers.
    pub(super) fn begin_leave(&mut self, session: &mut Session, index: usize, reason: &str) {
        let agent = &self.agents[index];
        if !agent.is_present() || self.leaving.contains_key(&index) {
            return; // its part has ended: its segments are fetched in the usual way
        }
        let text = format!(
            "agent {} is lost: it was asked to end ({reason}); it had reported {} transactions",
            agent.name,
            grouped(agent.reported.started)
        );
        let since_ns = session.run_time_ns();
        let leaving = LeavingAgent {
            text: text.clone(),
            since_ns,
            until: Instant::now() + HANDOVER_TIMEOUT,
            closed: None,
        };
        self.leaving.insert(index, leaving);
        session.note_at(since_ns, "agent-lost", &text);
        self.react_to_loss(session, text);
    }

    /// Starts the transfer of the segments of a leaving agent, which has closed them.
    pub(super) fn close_agent(
        &mut self,
        session: &Session,
        index: usize,
        totals: AgentTotals,
        window_ns: i64,
    ) {
        if let Some(leaving) = self.leaving.get_mut(&index) {
            leaving.closed = Some((totals, window_ns));
        }
        let agent = &self.agents[index];
        if let Some(gathering) = self.gathering.as_mut().filter(|_| !agent.local) {
            gathering.begin(session, &agent.name);
        }
    }

    /// Ends the leaving agents whose transfer is complete, and those whose time limit has passed.
    pub(super) fn release_leaving(&mut self, session: &mut Session) {
        let now = Instant::now();
        for index in self.leaving.keys().copied().collect::<Vec<_>>() {
            let leaving = &self.leaving[&index];
            let name = &self.agents[index].name;
            let is_waiting = self.gathering.as_ref().is_some_and(|all| all.waits_for(name));
            let is_late = now >= leaving.until;
            if leaving.closed.is_some() && !is_waiting {
                if let Some(leaving) = self.leaving.remove(&index) {
                    self.finish_handover(session, index, leaving);
                }
            } else if is_late && let Some(leaving) = self.leaving.remove(&index) {
                let why = format!("not transferred within {} s", HANDOVER_TIMEOUT.as_secs());
                session.drop_peer(&self.agents[index].name);
                self.abandon_handover(session, index, leaving, &why);
            }
        }
    }

    fn finish_handover(&mut self, session: &mut Session, index: usize, leaving: LeavingAgent) {
        let name = self.agents[index].name.clone();
        let failure = self.gathering.as_mut().and_then(|all| all.take_failure(&name));
        if let Some(why) = failure {
            session.drop_peer(&name);
            return self.abandon_handover(session, index, leaving, &why);
        }
        // The fetched segments are as safe as those of an agent on this host. The agent has no time
        // to wait for the conversion.
        if let Some(key) = self.key.as_ref().filter(|_| !self.agents[index].local) {
            gather::forget(session, key, std::slice::from_ref(&name));
        }
        if let Some(peer) = session.peers.get(&name) {
            peer.ask_to_quit();
        }
        self.left.push(name);
        self.end_leaving(index, leaving, "its measurements were transferred");
    }

    /// Abandons the transfer of a leaving agent, which has ended or whose time limit has passed.
    pub(super) fn abandon_handover(
        &mut self,
        session: &mut Session,
        index: usize,
        leaving: LeavingAgent,
        why: &str,
    ) {
        let agent = &self.agents[index];
        if let Some(gathering) = &mut self.gathering {
            gathering.give_up(session, &agent.name, why.to_owned());
            gathering.take_failure(&agent.name);
        }
        self.merger.end(index);
        self.report_seconds(session);
        let kept = if self.agents[index].local {
            format!("its segments are kept ({why})")
        } else {
            format!(
                "`plimsoll collect` fetches the remaining segments, unless they were lost with its host or Dask \
                 worker ({why})"
            )
        };
        self.end_leaving(index, leaving, &kept);
    }

    /// Ends the part of a leaving agent. `outcome` describes its measurements.
    fn end_leaving(&mut self, index: usize, leaving: LeavingAgent, outcome: &str) {
        let agent = &mut self.agents[index];
        let reported = || AgentTotals {
            counters: agent.reported,
            ..AgentTotals::default()
        };
        let (totals, window_ns) = leaving.closed.unzip();
        let mut totals = totals.unwrap_or_else(reported);
        totals.damage.push(format!("{}, {outcome}", leaving.text));
        agent.ended = Some(AgentEnd {
            totals,
            window_ns,
            lost_ns: Some(leaving.since_ns),
        });
    }
}
