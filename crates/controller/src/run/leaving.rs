//! Agents that are asked to end while a run goes on: by a batch system at the end of their time, or
//! by a person. They count as lost from then on, but not what they measured: they have a while to
//! hand it over.

use std::time::Instant;

use plimsoll_link::message::HANDOVER_TIMEOUT;
use plimsoll_model::AgentBooks;

use super::{ActiveRun, AgentEnd};
use crate::gather;
use crate::session::Session;

/// An agent on its way out.
pub(super) struct LeavingAgent {
    /// That it was asked to end, for people.
    text: String,
    /// When it was, ns from the start of the run.
    since_ns: i64,
    until: Instant,
    /// Its books and the end of its window, once it has closed them.
    closed: Option<(AgentBooks, i64)>,
}

impl ActiveRun {
    /// An agent says that it was asked to end, and stops its testers.
    pub(super) fn begin_leave(&mut self, session: &mut Session, index: usize, reason: &str) {
        let agent = &self.agents[index];
        if !agent.is_there() || self.leaving.contains_key(&index) {
            return; // its part is over: it is gathered like any other
        }
        let text = format!(
            "agent {} is lost: it was asked to end ({reason}); it had reported {} transactions",
            agent.name, agent.reported.started
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

    /// One that leaves has stopped, and closed its segments: they are fetched at once.
    pub(super) fn close_agent(&mut self, session: &Session, index: usize, books: AgentBooks, window_ns: i64) {
        if let Some(leaving) = self.leaving.get_mut(&index) {
            leaving.closed = Some((books, window_ns));
        }
        let agent = &self.agents[index];
        if let Some(gathering) = self.gathering.as_mut().filter(|_| !agent.local) {
            gathering.begin(session, &agent.name);
        }
    }

    /// Lets those go that have handed over everything, and those that nobody can wait for any
    /// longer.
    pub(super) fn release_leaving(&mut self, session: &mut Session) {
        let now = Instant::now();
        for index in self.leaving.keys().copied().collect::<Vec<_>>() {
            let leaving = &self.leaving[&index];
            let name = &self.agents[index].name;
            let waits = self.gathering.as_ref().is_some_and(|all| all.waits_for(name));
            let late = now >= leaving.until;
            if leaving.closed.is_some() && !waits {
                if let Some(leaving) = self.leaving.remove(&index) {
                    self.finish_handover(session, index, leaving);
                }
            } else if late && let Some(leaving) = self.leaving.remove(&index) {
                let why = format!("it had {} s for it", HANDOVER_TIMEOUT.as_secs());
                session.drop_peer(&self.agents[index].name);
                self.abandon_handover(session, index, leaving, &why);
            }
        }
    }

    fn finish_handover(&mut self, session: &mut Session, index: usize, leaving: LeavingAgent) {
        let name = self.agents[index].name.clone();
        let trouble = self.gathering.as_mut().and_then(|all| all.take_failure(&name));
        if let Some(why) = trouble {
            session.drop_peer(&name);
            return self.abandon_handover(session, index, leaving, &why);
        }
        // What we hold now is as safe as what an agent on this host writes, and it has no time to
        // wait for Parquet.
        if let Some(key) = self.key.as_ref().filter(|_| !self.agents[index].local) {
            gather::forget(session, key, std::slice::from_ref(&name));
        }
        if let Some(peer) = session.peers.get(&name) {
            peer.ask_to_quit();
        }
        self.left.push(name);
        self.end_leaving(index, leaving, "its measurements were transferred");
    }

    /// One that leaves is gone, or its time is over, before everything was here.
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
            format!("what is in its segments is kept ({why})")
        } else {
            format!(
                "`plimsoll collect` fetches the rest, unless it was lost with its host or Dask worker ({why})"
            )
        };
        self.end_leaving(index, leaving, &kept);
    }

    fn end_leaving(&mut self, index: usize, leaving: LeavingAgent, what: &str) {
        let agent = &mut self.agents[index];
        let reported = || AgentBooks {
            counters: agent.reported,
            ..AgentBooks::default()
        };
        let (books, window_ns) = leaving.closed.unzip();
        let mut books = books.unwrap_or_else(reported);
        books.damage.push(format!("{}, {what}", leaving.text));
        agent.ended = Some(AgentEnd {
            books,
            window_ns,
            lost_ns: Some(leaving.since_ns),
        });
    }
}
