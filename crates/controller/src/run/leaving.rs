//! Agents that are asked to end while a run goes on: by a batch system at the end of their time, or
//! by a person. They count as lost from then on, but not what they measured: they have a while to
//! hand it over.

use std::time::Instant;

use plimsoll_link::message::HAND_OVER;
use plimsoll_model::AgentBooks;

use super::{AgentEnd, Going};
use crate::gather;
use crate::session::{Session, note};

/// An agent on its way out.
pub(super) struct Leaving {
    /// That it was asked to end, for people.
    text: String,
    /// When it was, ns from the start of the run.
    since_ns: i64,
    until: Instant,
    /// Its books and the end of its window, once it has closed them.
    closed: Option<(AgentBooks, i64)>,
}

impl Going {
    /// An agent says that it was asked to end, and stops its testers.
    pub(super) fn leaves(&mut self, session: &mut Session, index: usize, reason: &str) {
        let agent = &self.agents[index];
        if !agent.is_there() || self.leaving.contains_key(&index) {
            return; // its part is over: it is gathered like any other
        }
        let text = format!(
            "agent {} is lost: it was asked to end ({reason}); it had reported {} transactions",
            agent.name, agent.reported.started
        );
        let since_ns = self.now_ns();
        let leaving = Leaving {
            text: text.clone(),
            since_ns,
            until: Instant::now() + HAND_OVER,
            closed: None,
        };
        self.leaving.insert(index, leaving);
        note(session, since_ns, "agent-lost", &text);
        self.missed(session, text);
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
    pub(super) fn see_off(&mut self, session: &mut Session) {
        let now = Instant::now();
        for index in self.leaving.keys().copied().collect::<Vec<_>>() {
            let leaving = &self.leaving[&index];
            let name = &self.agents[index].name;
            let waits = self.gathering.as_ref().is_some_and(|all| all.waits_for(name));
            let late = now >= leaving.until;
            if leaving.closed.is_some() && !waits {
                if let Some(leaving) = self.leaving.remove(&index) {
                    self.handed_over(session, index, leaving);
                }
            } else if late && let Some(leaving) = self.leaving.remove(&index) {
                let why = format!("it had {} s for it", HAND_OVER.as_secs());
                session.drop_peer(&self.agents[index].name);
                self.left_unheard(session, index, leaving, &why);
            }
        }
    }

    fn handed_over(&mut self, session: &mut Session, index: usize, leaving: Leaving) {
        let name = self.agents[index].name.clone();
        let trouble = self.gathering.as_mut().and_then(|all| all.trouble(&name));
        if let Some(why) = trouble {
            session.drop_peer(&name);
            return self.left_unheard(session, index, leaving, &why);
        }
        // What we hold now is as safe as what an agent on this host writes, and it has no time to
        // wait for Parquet.
        if let Some(key) = self.key.as_ref().filter(|_| !self.agents[index].local) {
            gather::forget(session, key, std::slice::from_ref(&name));
        }
        if let Some(peer) = session.peers.get(&name) {
            peer.farewell();
        }
        self.left.push(name);
        self.gone(index, leaving, "its measurements were transferred");
    }

    /// One that leaves is gone, or its time is over, before everything was here.
    pub(super) fn left_unheard(&mut self, session: &mut Session, index: usize, leaving: Leaving, why: &str) {
        let agent = &self.agents[index];
        if let Some(gathering) = &mut self.gathering {
            gathering.give_up(session, &agent.name, why.to_owned());
            gathering.trouble(&agent.name);
        }
        self.merger.end(index);
        self.seconds(session);
        let kept = if self.agents[index].local {
            format!("what is in its segments is kept ({why})")
        } else {
            format!(
                "`plimsoll collect` fetches the rest, unless it was lost with its host or Dask worker ({why})"
            )
        };
        self.gone(index, leaving, &kept);
    }

    fn gone(&mut self, index: usize, leaving: Leaving, what: &str) {
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
