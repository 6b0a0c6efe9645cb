//! All links and the paths over them: the destination host of a frame, the links that it passes,
//! and the time at which it arrives.
//!
//! Pure: time and frames are arguments. On a path over several links, a frame enters the next link
//! at the time at which it was due at the end of the previous link. The lateness of the loop
//! therefore does not accumulate.

use std::collections::HashMap;

use crate::frame::{self, Frame};
use crate::link::{Link, Wire};
use crate::spec::{Config, DirectedLink, Shape};
use crate::{WanError, key};

/// Forwards frames from host to host over the links.
pub struct Switch {
    /// Index of the host with an address.
    hosts: HashMap<u32, usize>,
    /// Index of the site of each host.
    site_of: Vec<usize>,
    /// Number of sites.
    sites: usize,
    links: Vec<Link<Flight>>,
    /// Sending and receiving site of each link.
    ends: Vec<(usize, usize)>,
    /// Link indices of the path from site a to site b, at a * sites + b.
    paths: Vec<Vec<usize>>,
    /// Frames without a destination: of another protocol, to an unknown address, or without a path.
    stray: u64,
}

/// A frame in transit.
struct Flight {
    /// Index of the destination host.
    to: usize,
    /// Index in `Switch::paths`.
    path: usize,
    /// Index of the current link in the path.
    hop: usize,
    frame: Frame,
}

/// A frame that has arrived.
pub struct Arrival {
    /// Index of the destination host.
    pub to: usize,
    /// Time at which it was due at the host, ns.
    pub due: i64,
    /// The frame with its offload header.
    pub frame: Frame,
}

impl Switch {
    /// Creates the links and paths of a configuration.
    ///
    /// # Errors
    /// [`WanError::Config`] if a route contains two successive sites without a link.
    pub fn new(config: &Config) -> Result<Self, WanError> {
        let sites = config.sites.len();
        let mut paths = vec![Vec::new(); sites * sites];
        for (index, link) in config.links.iter().enumerate() {
            paths[link.from * sites + link.to] = vec![index];
        }
        for route in &config.routes {
            let steps = route.sites.windows(2).map(|pair| {
                config
                    .links
                    .iter()
                    .position(|link| link.from == pair[0] && link.to == pair[1])
                    .ok_or_else(|| {
                        WanError::Config(format!(
                            "the route over the sites {:?} has no link from site {} to site {}",
                            route.sites, pair[0], pair[1]
                        ))
                    })
            });
            let (from, to) = (route.sites[0], route.sites[route.sites.len() - 1]);
            paths[from * sites + to] = steps.collect::<Result<_, _>>()?;
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
            paths,
            stray: 0,
        })
    }

    /// Accepts a frame that host `from` sent at `now` (ns). Returns the mean delay in ns of its
    /// first link, or None for a frame without a destination, which is dropped and counted.
    pub fn accept(&mut self, now: i64, from: usize, frame: Frame) -> Option<i64> {
        let to = frame::destination(&frame).and_then(|address| self.hosts.get(&address).copied());
        let path = to.map(|to| (to, self.site_of[from] * self.sites + self.site_of[to]));
        let first = path.and_then(|(to, path)| Some((to, path, *self.paths[path].first()?)));
        let Some((to, path, first)) = first else {
            self.stray += 1;
            return None;
        };
        let wire = frame::wire(&frame);
        let flight = Flight {
            to,
            path,
            hop: 0,
            frame,
        };
        self.links[first].offer(now, wire, flight);
        Some(self.links[first].shape().delay_ns)
    }

    /// Passes every frame that is due at its host by `now` to `arrived`. The frames of one link are
    /// in order.
    pub fn release(&mut self, now: i64, mut arrived: impl FnMut(Arrival)) {
        // A frame that leaves one link may also be due at the end of the next link by `now`.
        loop {
            let mut moved = false;
            for index in 0..self.links.len() {
                while let Some((due, wire, flight)) = self.links[index].pop_due(now) {
                    moved |= self.forward(due, wire, flight, &mut arrived);
                }
            }
            if !moved {
                return;
            }
        }
    }

    /// Passes a frame to its next link (true) or to its host (false).
    fn forward(&mut self, due: i64, wire: Wire, flight: Flight, arrived: &mut impl FnMut(Arrival)) -> bool {
        let hop = flight.hop + 1;
        let Some(next) = self.paths[flight.path].get(hop).copied() else {
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

    /// Time in ns at which the next frame leaves a link. None if no frame is in transit.
    pub fn next_due(&self) -> Option<i64> {
        self.links.iter().filter_map(Link::next_due).min()
    }

    /// Changes links while they are in use.
    ///
    /// # Errors
    /// [`WanError::Config`] for a link that does not exist or a shape out of range. No link is then
    /// changed.
    pub fn change(&mut self, changes: &[DirectedLink], now: i64) -> Result<(), WanError> {
        let mut updates = Vec::new();
        for change in changes {
            change.shape.check()?;
            let ends = (change.from, change.to);
            let index = self.ends.iter().position(|pair| *pair == ends);
            let no_link = || {
                WanError::Config(format!(
                    "there is no link from site {} to site {}",
                    ends.0, ends.1
                ))
            };
            updates.push((index.ok_or_else(no_link)?, change.shape));
        }
        for (index, shape) in updates {
            self.links[index].set_shape(shape, now);
        }
        Ok(())
    }

    /// Maximum number of packets that a host of this site may send as one large frame: the minimum
    /// over all links of the site's paths.
    pub fn segments(&self, site: usize) -> u32 {
        let paths = &self.paths[site * self.sites..(site + 1) * self.sites];
        let limits = paths
            .iter()
            .flatten()
            .map(|link| self.links[*link].shape().segments());
        limits.min().unwrap_or(1)
    }

    /// Index of the site of a host.
    pub fn site_of(&self, host: usize) -> usize {
        self.site_of[host]
    }

    /// Number of frames without a destination, which were dropped.
    pub fn stray(&self) -> u64 {
        self.stray
    }

    /// Every link: sending and receiving site, shape, counters, bytes in transit.
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

    /// Three sites in a row, 0 - 1 - 2, with one host each. The path from 0 to 2 goes through 1.
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
                .map(|(from, to, ms)| DirectedLink {
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
        let mut arrived = Vec::new();
        switch.release(now, |arrival| arrived.push((arrival.to, arrival.due)));
        arrived
    }

    #[test]
    fn a_path_over_two_links_adds_their_delays_when_the_loop_is_late() {
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
    fn frames_without_a_destination_are_counted() {
        let mut switch = Switch::new(&config()).unwrap();
        switch.accept(0, 0, frame(9));
        switch.accept(0, 0, frame(0)); // site 0 has no LAN
        switch.accept(0, 0, vec![0; 12].into());
        assert_eq!(switch.stray(), 3);
        assert_eq!(switch.next_due(), None);
    }

    #[test]
    fn a_rejected_change_changes_no_link() {
        let mut switch = Switch::new(&config()).unwrap();
        let change = |from, to, loss| DirectedLink {
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
        assert_eq!(switch.segments(0), 1, "the path to site 2 contains that link");
        assert!(switch.segments(2) > 1);
    }

    #[test]
    fn a_large_frame_takes_at_most_a_tenth_of_a_millisecond_at_the_rate() {
        let at = |mbit_s: u64| Shape {
            rate_bit_s: Some(mbit_s * 1_000_000),
            ..Shape::default()
        };
        let lossy = Shape { loss: 0.1, ..at(500) };
        let shapes = [at(1), at(100), at(500), at(1_000_000), lossy, Shape::default()];
        assert_eq!(shapes.map(|shape| shape.segments()), [1, 1, 4, 8256, 1, 65_535]);
    }

    #[test]
    fn a_route_over_a_missing_link_is_rejected() {
        let mut broken = config();
        broken.links.pop();
        assert!(matches!(Switch::new(&broken), Err(WanError::Config(_))));
    }
}
