//! All links and the ways over them: which host a frame is for, which links it passes, when it
//! comes out.
//!
//! Pure: time and frames are arguments. A way over several links offers a frame to the next link at
//! the very time at which it came out of the one before, however late the loop was, so that
//! lateness does not add up.

use std::collections::HashMap;

use crate::frame::{self, Frame};
use crate::link::{Link, Wire};
use crate::spec::{Config, Directed, Shape};
use crate::{WanError, key};

/// Where frames go.
pub struct Switch {
    hosts: HashMap<u32, usize>,
    site_of: Vec<usize>,
    sites: usize,
    links: Vec<Link<Flight>>,
    ends: Vec<(usize, usize)>,
    /// Link indices of the way from site a to site b, at a * sites + b.
    ways: Vec<Vec<usize>>,
    /// Frames for nobody: other protocols, other addresses, no way.
    stray: u64,
}

/// A frame on its way.
struct Flight {
    to: usize,
    way: usize,
    hop: usize,
    frame: Frame,
}

/// A frame that has arrived.
pub struct Arrival {
    /// Index of the host.
    pub to: usize,
    /// When it should have arrived, ns.
    pub due: i64,
    /// With its offload header.
    pub frame: Frame,
}

impl Switch {
    /// Links and ways as asked for.
    ///
    /// # Errors
    /// [`WanError::Config`] where a way needs a link that is not there.
    pub fn new(config: &Config) -> Result<Self, WanError> {
        let sites = config.sites.len();
        let mut ways = vec![Vec::new(); sites * sites];
        for (index, link) in config.links.iter().enumerate() {
            ways[link.from * sites + link.to] = vec![index];
        }
        for route in &config.routes {
            let steps = route.sites.windows(2).map(|pair| {
                config
                    .links
                    .iter()
                    .position(|link| link.from == pair[0] && link.to == pair[1])
                    .ok_or_else(|| {
                        WanError::Config(format!("no link for a step of the way {:?}", route.sites))
                    })
            });
            let (from, to) = (route.sites[0], route.sites[route.sites.len() - 1]);
            ways[from * sites + to] = steps.collect::<Result<_, _>>()?;
        }
        let links = (0_u64..)
            .zip(&config.links)
            .map(|(stream, link)| Link::new(link.shape, config.seed, stream))
            .collect();
        Ok(Switch {
            hosts: config
                .hosts
                .iter()
                .enumerate()
                .map(|(index, host)| (key(host.address), index))
                .collect(),
            site_of: config.hosts.iter().map(|host| host.site).collect(),
            sites,
            links,
            ends: config.links.iter().map(|link| (link.from, link.to)).collect(),
            ways,
            stray: 0,
        })
    }

    /// Takes a frame that host `from` has sent at `now`. Gives the delay of its first link, None if
    /// it goes nowhere.
    pub fn accept(&mut self, now: i64, from: usize, frame: Frame) -> Option<i64> {
        let to = frame::destination(&frame).and_then(|address| self.hosts.get(&address).copied());
        let way = to.map(|to| (to, self.site_of[from] * self.sites + self.site_of[to]));
        let first = way.and_then(|(to, way)| Some((to, way, *self.ways[way].first()?)));
        let Some((to, way, first)) = first else {
            self.stray += 1;
            return None;
        };
        let wire = frame::wire(&frame);
        let flight = Flight {
            to,
            way,
            hop: 0,
            frame,
        };
        self.links[first].offer(now, wire, flight);
        Some(self.links[first].shape().delay_ns)
    }

    /// Hands over everything that has arrived by `now`, in order for each link.
    pub fn release(&mut self, now: i64, mut arrived: impl FnMut(Arrival)) {
        // A frame that leaves one link may be due at the end of the next by now, too.
        loop {
            let mut moved = false;
            for index in 0..self.links.len() {
                while let Some((due, wire, flight)) = self.links[index].pop_due(now) {
                    moved |= self.step(due, wire, flight, &mut arrived);
                }
            }
            if !moved {
                return;
            }
        }
    }

    /// On to the next link (true) or to the host (false).
    fn step(&mut self, due: i64, wire: Wire, flight: Flight, arrived: &mut impl FnMut(Arrival)) -> bool {
        let hop = flight.hop + 1;
        let Some(next) = self.ways[flight.way].get(hop).copied() else {
            arrived(Arrival {
                to: flight.to,
                due,
                frame: flight.frame,
            });
            return false;
        };
        self.links[next].offer(due, wire, Flight { hop, ..flight });
        true
    }

    /// When the next frame moves.
    pub fn next_due(&self) -> Option<i64> {
        self.links.iter().filter_map(Link::next_due).min()
    }

    /// Changes links while they are in use.
    ///
    /// # Errors
    /// [`WanError::Config`] for a link that is not there or a shape out of range; then nothing is
    /// changed.
    pub fn change(&mut self, changes: &[Directed], now: i64) -> Result<(), WanError> {
        let mut found = Vec::new();
        for change in changes {
            change.shape.check()?;
            let ends = (change.from, change.to);
            let index = self.ends.iter().position(|pair| *pair == ends);
            found.push((
                index.ok_or_else(|| WanError::Config(format!("no link {ends:?}")))?,
                change.shape,
            ));
        }
        for (index, shape) in found {
            self.links[index].set_shape(shape, now);
        }
        Ok(())
    }

    /// Most packets that a host of this site may send as one large frame: as the link wants that
    /// bears the least, of all that it can use.
    pub fn segments(&self, site: usize) -> u32 {
        let ways = &self.ways[site * self.sites..(site + 1) * self.sites];
        let wanted = ways
            .iter()
            .flatten()
            .map(|link| self.links[*link].shape().segments());
        wanted.min().unwrap_or(1)
    }

    /// Site of a host.
    pub fn site_of(&self, host: usize) -> usize {
        self.site_of[host]
    }

    /// Frames that were for nobody.
    pub fn stray(&self) -> u64 {
        self.stray
    }

    /// Every link: its ends, its shape, its counters, bytes on their way.
    pub fn links(&self) -> impl Iterator<Item = ((usize, usize), Shape, crate::link::Counters, u64)> {
        self.ends
            .iter()
            .zip(&self.links)
            .map(|(ends, link)| (*ends, link.shape(), link.counters(), link.held_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::OFFLOAD;
    use crate::spec::{Host, Route};

    const MS: i64 = 1_000_000;

    /// Three sites in a row, 0 - 1 - 2, with a host each; 0 to 2 goes through 1.
    fn config() -> Config {
        let delays = [(0, 1, 10), (1, 0, 20), (1, 2, 100), (2, 1, 200)];
        let shape = |ms: i64| Shape {
            delay_ns: ms * MS,
            queue_bytes: 1 << 20,
            ..Shape::default()
        };
        Config {
            testbed: 1,
            name: "t".into(),
            directory: "/nowhere".into(),
            seed: 1,
            congestion: None,
            prefix: 16,
            sites: vec!["a".into(), "b".into(), "c".into()],
            hosts: (0..3_u8)
                .map(|site| Host {
                    name: format!("h{site}"),
                    site: site.into(),
                    address: [10, 64, site, 1].into(),
                })
                .collect(),
            links: delays
                .map(|(from, to, ms)| Directed {
                    from,
                    to,
                    shape: shape(ms),
                })
                .to_vec(),
            routes: vec![Route { sites: vec![0, 1, 2] }, Route { sites: vec![2, 1, 0] }],
            daemon: None,
        }
    }

    fn frame(to: u8) -> Frame {
        let mut frame = vec![0; 100].into_boxed_slice();
        frame[OFFLOAD + 12] = 8;
        frame[OFFLOAD + 14] = 0x45;
        frame[OFFLOAD + 30..OFFLOAD + 34].copy_from_slice(&[10, 64, to, 1]);
        frame
    }

    fn arrivals(switch: &mut Switch, now: i64) -> Vec<(usize, i64)> {
        let mut found = Vec::new();
        switch.release(now, |arrival| found.push((arrival.to, arrival.due)));
        found
    }

    #[test]
    fn a_way_over_two_links_adds_their_delays_however_late_the_loop_is() {
        let mut switch = Switch::new(&config()).unwrap();
        switch.accept(0, 0, frame(2));
        assert_eq!(switch.next_due(), Some(10 * MS));
        assert_eq!(arrivals(&mut switch, 30 * MS), []);
        assert_eq!(switch.next_due(), Some(110 * MS));
        assert_eq!(arrivals(&mut switch, 500 * MS), [(2, 110 * MS)]);
        switch.accept(0, 2, frame(0));
        assert_eq!(arrivals(&mut switch, 500 * MS), [(0, 220 * MS)]);
        let passed: Vec<u64> = switch
            .links()
            .map(|(_, _, counters, _)| counters.passed_packets)
            .collect();
        assert_eq!(passed, [1, 1, 1, 1]);
    }

    #[test]
    fn what_is_for_nobody_is_counted() {
        let mut switch = Switch::new(&config()).unwrap();
        switch.accept(0, 0, frame(9));
        switch.accept(0, 0, frame(0)); // no LAN is given for site 0
        switch.accept(0, 0, vec![0; 12].into());
        assert_eq!(switch.stray(), 3);
        assert_eq!(switch.next_due(), None);
    }

    #[test]
    fn a_change_is_whole_or_not_at_all() {
        let mut switch = Switch::new(&config()).unwrap();
        let change = |from, to, loss| Directed {
            from,
            to,
            shape: Shape {
                loss,
                queue_bytes: 1 << 20,
                ..Shape::default()
            },
        };
        for wrong in [change(0, 2, 0.0), change(1, 0, 2.0)] {
            assert!(switch.change(&[change(0, 1, 0.5), wrong], 0).is_err());
            assert!(switch.links().all(|(_, shape, _, _)| shape.loss == 0.0));
        }
        assert!(switch.segments(0) > 1);
        switch.change(&[change(1, 2, 0.5)], 0).unwrap();
        assert_eq!(switch.segments(0), 1, "its way to site 2 passes there");
        assert!(switch.segments(2) > 1);
    }

    #[test]
    fn large_frames_are_as_long_as_a_tenth_of_a_millisecond_at_the_rate() {
        let at = |mbit_s: u64| Shape {
            rate_bit_s: Some(mbit_s * 1_000_000),
            ..Shape::default()
        };
        let lossy = Shape { loss: 0.1, ..at(500) };
        let shapes = [at(1), at(100), at(500), at(1_000_000), lossy, Shape::default()];
        assert_eq!(shapes.map(|shape| shape.segments()), [1, 1, 4, 8256, 1, 65_535]);
    }

    #[test]
    fn a_way_over_a_link_that_is_not_there() {
        let mut broken = config();
        broken.links.pop();
        assert!(matches!(Switch::new(&broken), Err(WanError::Config(_))));
    }
}
