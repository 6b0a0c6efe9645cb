//! The end of a run: fetches segments from other hosts, converts all segments, and writes the
//! summary.

use std::collections::BTreeSet;

use plimsoll_model::{Role, RunOutcome};
use plimsoll_record::{convert, write_json};

use super::{ActiveRun, gather};
use crate::files::summary::{AgentSummary, Summary};
use crate::session::Session;

impl ActiveRun {
    /// Completes the run: its files and its summary.
    pub(super) fn close(mut self, session: &mut Session) -> RunOutcome {
        let now_ns = session.run_time_ns();
        let far = self.fetch_segments(session);
        let totals = self.take_totals();
        let mut summary = Summary::new(&self.start, totals);
        summary.status = self.status.to_owned();
        summary.reason = self.reason;
        summary.damage.extend(self.damage);
        let conversion = convert(&self.spec.directory, &self.start);
        for event in conversion
            .iter()
            .flat_map(|conversion| conversion.clocks.events())
        {
            session.note_at(event.t_ns, event.kind, &event.text);
        }
        match &conversion {
            Ok(conversion) => summary.settle(conversion),
            Err(error) => summary.postpone(&self.spec.directory, error),
        }
        match write_json(&self.spec.directory.join("summary.json"), &summary) {
            Ok(()) => {
                if let (Ok(_), Some(key)) = (&conversion, &self.key) {
                    gather::forget(session, key, &gathered(&summary, &far));
                }
                let outstanding = summary.outstanding(&self.start);
                if let Ok(conversion) = &conversion {
                    conversion.clean_up(outstanding);
                }
            }
            Err(error) => summary.damage.push(error.to_string()),
        }
        for text in &summary.damage {
            session.note_at(now_ns, "damage", text);
        }
        session.dismiss(&self.left);
        summary.outcome()
    }

    /// Fetches the segments of agents on other hosts. Returns the names of these agents.
    fn fetch_segments(&mut self, session: &mut Session) -> Vec<String> {
        let far: Vec<String> = self
            .agents
            .iter()
            .filter(|agent| !agent.local && agent.generation != 0 && agent.lost_ns().is_none())
            .map(|agent| agent.name.clone())
            .collect();
        if let Some(key) = &self.key {
            let segments = self.spec.directory.join("segments");
            for (name, why) in gather::gather(session, key, &segments, &far) {
                self.damage.push(format!(
                    "the segments of agent {name} are still on its host ({why}): run `plimsoll collect`"
                ));
            }
        }
        far
    }

    /// The summaries of all agents that took part.
    fn take_totals(&mut self) -> Vec<AgentSummary> {
        let all = self.agents.iter_mut().zip(&self.start.agents);
        all.filter(|(agent, _)| agent.generation != 0)
            .map(|(agent, start)| {
                let lost_ns = agent.lost_ns();
                let ended = agent.ended.take();
                AgentSummary {
                    name: start.name.clone(),
                    host: start.host.clone(),
                    site: start.site.clone(),
                    role: if agent.watches { Role::Watch } else { Role::Testers },
                    t0_raw_ns: start.t0_raw_ns,
                    lost: lost_ns.is_some(),
                    lost_ns,
                    reported_ns: Some(agent.reported_ns),
                    window_ns: ended.as_ref().and_then(|ended| ended.window_ns),
                    totals: ended.map(|ended| ended.totals).unwrap_or_default(),
                }
            })
            .collect()
    }
}

/// The agents of `far` whose segments were all converted: they may remove them.
fn gathered(summary: &Summary, far: &[String]) -> Vec<String> {
    let held: BTreeSet<&str> = summary
        .segments
        .iter()
        .map(|segment| segment.name.as_str())
        .collect();
    let is_complete = |agent: &&AgentSummary| {
        agent
            .totals
            .segments
            .iter()
            .all(|name| held.contains(name.as_str()))
    };
    summary
        .agents
        .iter()
        .filter(|agent| far.contains(&agent.name))
        .filter(is_complete)
        .map(|agent| agent.name.clone())
        .collect()
}
