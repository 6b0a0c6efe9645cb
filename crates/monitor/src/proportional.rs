//! The proportional set size of a process tree: each shared page is divided by the number of
//! processes that map it, so the sum over a tree counts every page once.
//!
//! The kernel walks all pages of a process to compute it, during which the process cannot change
//! its address space: 16 ms for a database process with 300 MB of shared buffers. Therefore it is
//! read within a budget of 2 % of the time. A second reads as many processes as the budget allows,
//! and the next one continues there. A sum is reported when each process was read.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

/// Share of the time that may be spent.
const BUDGET: f64 = 0.02;
/// What may be spent at the first reading, so that short runs have a value, s.
const FIRST_S: f64 = 0.1;
/// The maximum of time that accumulates while little is to be read, s.
const MAX_CREDIT_S: f64 = 0.1;

/// The readings of one tree.
#[derive(Debug)]
pub(crate) struct ProportionalSize {
    /// Size of each process that was read, in this pass, bytes.
    sizes: BTreeMap<u32, u64>,
    credit_s: f64,
}

impl Default for ProportionalSize {
    fn default() -> Self {
        Self {
            sizes: BTreeMap::new(),
            credit_s: FIRST_S,
        }
    }
}

impl ProportionalSize {
    /// Continues to read, with the budget of the `seconds` since the previous call. Returns the
    /// sum, bytes, when all members were read. None also without the right to read them.
    pub(crate) fn advance<'a>(
        &mut self,
        proc: &Path,
        members: impl Iterator<Item = &'a u32>,
        seconds: Option<f64>,
    ) -> Option<u64> {
        self.credit_s = (self.credit_s + BUDGET * seconds.unwrap_or(0.0)).min(MAX_CREDIT_S);
        let members: Vec<u32> = members.copied().collect();
        self.sizes.retain(|pid, _| members.binary_search(pid).is_ok());
        for pid in members {
            if self.sizes.contains_key(&pid) {
                continue;
            }
            if self.credit_s <= 0.0 {
                return None;
            }
            let begin = Instant::now();
            let size = read(&proc.join(format!("{pid}/smaps_rollup")));
            self.credit_s -= begin.elapsed().as_secs_f64();
            match size {
                Some(size) => self.sizes.insert(pid, size),
                // It has ended, or may not be read: then the sum would be too small.
                None if proc.join(pid.to_string()).exists() => return None,
                None => continue,
            };
        }
        let sum = self.sizes.values().sum();
        self.sizes.clear();
        Some(sum)
    }
}

fn read(path: &Path) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kilobytes: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_reported_when_all_were_read_within_the_budget() {
        let proc = std::env::temp_dir().join(format!("plimsoll-pss-{}", std::process::id()));
        for (pid, pss) in [(10, 100), (11, 20)] {
            let path = proc.join(pid.to_string());
            fs::create_dir_all(&path).unwrap();
            let text = format!(
                "55d0-7ffc ---p 00000000 00:00 0 [rollup]\nRss: 999 kB\nPss:  {pss} kB\nPss_Anon: 1 kB\n"
            );
            fs::write(path.join("smaps_rollup"), text).unwrap();
        }
        let members = [10, 11];
        let mut size = ProportionalSize::default();
        assert_eq!(size.advance(&proc, members.iter(), None), Some(120 * 1024));
        size.credit_s = -0.015;
        assert_eq!(size.advance(&proc, members.iter(), Some(0.5)), None, "no budget");
        assert_eq!(size.advance(&proc, members.iter(), Some(1.0)), Some(120 * 1024));
        let ended = [10, 11, 12];
        assert_eq!(size.advance(&proc, ended.iter(), Some(1.0)), Some(120 * 1024));
        fs::create_dir_all(proc.join("12")).unwrap();
        assert_eq!(size.advance(&proc, ended.iter(), Some(1.0)), None, "not readable");
        fs::remove_dir_all(&proc).unwrap();
    }

    #[test]
    fn the_size_of_this_process_is_at_most_its_resident_set() {
        let own = std::process::id();
        let mut size = ProportionalSize::default();
        let Some(pss) = size.advance(Path::new("/proc"), [own].iter(), None) else {
            return; // a kernel before 4.14
        };
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let peak = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .unwrap();
        let peak: u64 = peak.split_ascii_whitespace().next().unwrap().parse().unwrap();
        assert!(pss > 100_000 && pss <= peak * 1024, "{pss} {peak}");
    }
}
