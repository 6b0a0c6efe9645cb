//! One direction of one link: a transmitter with a bounded queue, then a delay.
//!
//! Pure: time is an argument. A frame that is offered at `now` is lost with probability `loss`.
//! Otherwise it waits until the transmitter is free. If more than `queue_bytes` would then wait, it
//! is dropped. It is sent at the rate and leaves the link after the delay. The order is first in,
//! first out for the whole link, so that jitter never reorders a flow. If frames follow each other
//! at a shorter distance than the jitter, the later frame waits for the earlier one, and the mean
//! delay grows towards the upper end of the distribution. Rejected: an order for each flow. Jitter
//! would then reorder frames of different flows, which no queue of a router does.

use std::collections::VecDeque;

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng as _, SeedableRng as _};
use serde::{Deserialize, Serialize};

use crate::spec::Shape;

const NS_PER_S: u128 = 1_000_000_000;

/// Packets and bytes of a frame on the wire. A large frame counts as the packets into which
/// segmentation offload cuts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wire {
    /// Number of packets, at least 1.
    pub packets: u32,
    /// Bytes of all packets, each with its headers.
    pub bytes: u32,
}

/// Counts of a link since its creation, in packets on the wire and their bytes.
/// offered = passed + lost + full + cut + in transit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Packets that arrived at the link.
    pub offered_packets: u64,
    /// Bytes that arrived at the link.
    pub offered_bytes: u64,
    /// Packets that left the link at its other end.
    pub passed_packets: u64,
    /// Bytes that left the link at its other end.
    pub passed_bytes: u64,
    /// Packets dropped at random, with the probability [`Shape::loss`].
    pub lost_packets: u64,
    /// Packets dropped because the queue was full.
    pub full_packets: u64,
    /// Packets dropped because the link was cut.
    pub cut_packets: u64,
}

/// One direction of a link. `T` is the type of a frame.
#[derive(Debug)]
pub struct Link<T> {
    shape: Shape,
    rng: Pcg64Mcg,
    /// Time at which the transmitter has sent every accepted frame, ns.
    free_at: i64,
    /// Time at which the last accepted frame leaves the link, ns. No later frame leaves earlier.
    last_due: i64,
    /// Accepted frames in the order in which they leave the link, each with that time.
    in_transit: VecDeque<(i64, Wire, T)>,
    /// Bytes in `in_transit`.
    held: u64,
    counters: Counters,
}

impl<T> Link<T> {
    /// A link without frames. `stream` selects the random stream among those of the same seed.
    pub fn new(shape: Shape, seed: u64, stream: u64) -> Self {
        // The multiplier is odd, so different streams of one seed have different seeds.
        let stream_seed = seed ^ (stream + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Link {
            shape,
            rng: Pcg64Mcg::seed_from_u64(stream_seed),
            free_at: i64::MIN,
            last_due: i64::MIN,
            in_transit: VecDeque::new(),
            held: 0,
            counters: Counters::default(),
        }
    }

    /// Current properties of the link.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Counts since the creation of the link.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Bytes of the accepted frames that have not left the link.
    pub fn held_bytes(&self) -> u64 {
        self.held
    }

    /// Changes the link for frames that are offered from now on. Frames in transit keep the time at
    /// which they leave, and no frame overtakes them.
    pub fn set_shape(&mut self, shape: Shape, now: i64) {
        if self.shape.rate_bit_s != shape.rate_bit_s {
            // Frames that wait at the old rate count as sent: the time at which they leave is
            // already set.
            self.free_at = self.free_at.min(now);
        }
        self.shape = shape;
    }

    /// Accepts a frame (true), or drops and counts it (false). `now` is a time in ns of any clock
    /// that does not step back.
    pub fn offer(&mut self, now: i64, wire: Wire, item: T) -> bool {
        self.counters.offered_packets += u64::from(wire.packets);
        self.counters.offered_bytes += u64::from(wire.bytes);
        if self.shape.down {
            self.counters.cut_packets += u64::from(wire.packets);
            return false;
        }
        // The loss is drawn also when the queue is full, so that the same frames are lost at any
        // load.
        if self.shape.loss > 0.0 && self.unit() < self.shape.loss {
            self.counters.lost_packets += u64::from(wire.packets);
            return false;
        }
        let Some(sent) = self.transmit(now, u64::from(wire.bytes)) else {
            self.counters.full_packets += u64::from(wire.packets);
            return false;
        };
        let due = (sent + self.draw_delay()).max(self.last_due);
        self.last_due = due;
        self.held += u64::from(wire.bytes);
        self.in_transit.push_back((due, wire, item));
        true
    }

    /// Time in ns at which the next frame leaves the link. None if the link is empty.
    pub fn next_due(&self) -> Option<i64> {
        self.in_transit.front().map(|(due, _, _)| *due)
    }

    /// Removes the next frame that has left the link by `now`. Returns it with the time at which it
    /// left.
    pub fn pop_due(&mut self, now: i64) -> Option<(i64, Wire, T)> {
        self.next_due().filter(|due| *due <= now)?;
        let (due, wire, item) = self.in_transit.pop_front()?;
        self.held -= u64::from(wire.bytes);
        self.counters.passed_packets += u64::from(wire.packets);
        self.counters.passed_bytes += u64::from(wire.bytes);
        Some((due, wire, item))
    }

    /// Time at which the last bit of a frame leaves the transmitter. None if the queue is full.
    fn transmit(&mut self, now: i64, bytes: u64) -> Option<i64> {
        let Some(rate) = self.shape.rate_bit_s else {
            // No queue forms, but the memory in use is bounded.
            return (self.held + bytes <= self.shape.queue_bytes).then_some(now);
        };
        let start = self.free_at.max(now);
        let waiting = u128::from((start - now).unsigned_abs()) * u128::from(rate) / (8 * NS_PER_S);
        if waiting + u128::from(bytes) > u128::from(self.shape.queue_bytes) {
            return None;
        }
        let takes = (u128::from(bytes) * 8 * NS_PER_S + u128::from(rate) / 2) / u128::from(rate);
        self.free_at = start + i64::try_from(takes).unwrap_or(i64::MAX / 4);
        Some(self.free_at)
    }

    fn draw_delay(&mut self) -> i64 {
        if self.shape.jitter_ns == 0 {
            return self.shape.delay_ns;
        }
        let width = self.shape.jitter_ns as f64;
        self.shape.delay_ns + ((self.unit() - 0.5) * width) as i64
    }

    /// Draws a number from the uniform distribution on [0, 1), with 53 random bits.
    fn unit(&mut self) -> f64 {
        (self.rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;
    const FRAME: Wire = Wire {
        packets: 1,
        bytes: 1250,
    };

    fn shape() -> Shape {
        Shape {
            queue_bytes: 1 << 21,
            ..Shape::default()
        }
    }

    fn link(shape: Shape) -> Link<u32> {
        shape.check().unwrap();
        Link::new(shape, 7, 0)
    }

    #[test]
    fn a_frame_leaves_a_link_after_its_delay() {
        let mut link = link(Shape {
            delay_ns: 30 * MS,
            ..shape()
        });
        assert!(link.offer(5, FRAME, 1));
        assert_eq!(link.next_due(), Some(30 * MS + 5));
        assert_eq!(link.pop_due(30 * MS + 4), None);
        assert_eq!(link.pop_due(30 * MS + 5), Some((30 * MS + 5, FRAME, 1)));
        assert_eq!(link.next_due(), None);
        assert_eq!(link.held_bytes(), 0);
    }

    #[test]
    fn a_rate_spaces_frames_and_its_queue_is_bounded() {
        // 10 Mbit/s: 1,250 bytes take 1 ms. The queue holds four frames, including the one in
        // transmission.
        let mut link = link(Shape {
            rate_bit_s: Some(10_000_000),
            queue_bytes: 5_000,
            ..shape()
        });
        let taken: Vec<bool> = (0..6).map(|number| link.offer(0, FRAME, number)).collect();
        assert_eq!(taken, [true, true, true, true, false, false]);
        assert_eq!(link.counters().full_packets, 2);
        // After 1 ms one frame has left: one more fits.
        assert!(link.offer(MS, FRAME, 6));
        assert!(!link.offer(MS, FRAME, 7));
        let out: Vec<(i64, u32)> = std::iter::from_fn(|| link.pop_due(i64::MAX))
            .map(|(due, _, item)| (due, item))
            .collect();
        assert_eq!(out, [(MS, 0), (2 * MS, 1), (3 * MS, 2), (4 * MS, 3), (5 * MS, 6)]);
    }

    #[test]
    fn the_rate_is_exact_to_one_part_in_a_million() {
        let rate = 500_000_000;
        let mut link = link(Shape {
            rate_bit_s: Some(rate),
            queue_bytes: 1 << 32,
            ..shape()
        });
        let wire = Wire {
            packets: 1,
            bytes: 1514,
        };
        for number in 0..1_000_000 {
            assert!(link.offer(0, wire, number));
        }
        let expected = 1e6 * 1514.0 * 8.0 / rate as f64 * 1e9;
        assert!((link.last_due as f64 / expected - 1.0).abs() < 1e-6);
    }

    #[test]
    fn jitter_is_uniform_and_never_reorders() {
        let mut link = link(Shape {
            delay_ns: 50 * MS,
            jitter_ns: 10 * MS,
            ..shape()
        });
        let (mut least, mut greatest, mut sum) = (i64::MAX, 0, 0.0);
        for number in 0..10_000_u32 {
            let now = i64::from(number) * 100 * MS; // far apart: no frame waits for another
            link.offer(now, FRAME, number);
            let (due, _, item) = link.pop_due(i64::MAX).unwrap();
            assert_eq!(item, number);
            least = least.min(due - now);
            greatest = greatest.max(due - now);
            sum += (due - now) as f64;
        }
        assert!((45 * MS..46 * MS).contains(&least) && (54 * MS..=55 * MS).contains(&greatest));
        // Standard error of the mean: 10 ms / sqrt(12) / 100 = 0.029 ms; five of them.
        assert!((sum / 1e4 - 50e6).abs() < 0.15e6);
        let start = 20_000 * 100 * MS;
        for number in 0..1_000 {
            link.offer(start + i64::from(number) * MS / 10, FRAME, number);
        }
        let out: Vec<(i64, u32)> = std::iter::from_fn(|| link.pop_due(i64::MAX))
            .map(|(due, _, item)| (due, item))
            .collect();
        assert!(out.is_sorted());
        assert!(out.iter().map(|(_, item)| *item).eq(0..1_000));
    }

    #[test]
    fn loss_depends_on_the_seed_and_is_within_its_interval() {
        for (loss, stream) in [(0.01, 0), (0.05, 1)] {
            let run = |seed| {
                let mut link = Link::new(
                    Shape {
                        loss,
                        queue_bytes: 1 << 32,
                        ..shape()
                    },
                    seed,
                    stream,
                );
                (0..100_000)
                    .map(|number| link.offer(0, FRAME, number))
                    .collect::<Vec<bool>>()
            };
            let first = run(1);
            assert_eq!(first, run(1));
            assert_ne!(first, run(2));
            let lost = first.iter().filter(|taken| !**taken).count() as f64;
            let sigma = (1e5 * loss * (1.0 - loss)).sqrt();
            assert!(
                (lost - 1e5 * loss).abs() < 3.29 * sigma,
                "{lost} of 100,000 at {loss}"
            );
        }
    }

    #[test]
    fn a_cut_link_drops_and_counts_frames_and_a_change_keeps_their_order() {
        let slow = Shape {
            delay_ns: 100 * MS,
            ..shape()
        };
        let mut link = link(slow);
        link.offer(0, FRAME, 1);
        link.set_shape(Shape { down: true, ..slow }, MS);
        assert!(!link.offer(MS, FRAME, 2));
        link.set_shape(Shape { delay_ns: MS, ..slow }, 2 * MS);
        link.offer(2 * MS, FRAME, 3);
        assert_eq!(link.pop_due(i64::MAX), Some((100 * MS, FRAME, 1)));
        assert_eq!(link.pop_due(i64::MAX), Some((100 * MS, FRAME, 3)));
        let counters = link.counters();
        assert_eq!(
            (
                counters.offered_packets,
                counters.passed_packets,
                counters.cut_packets
            ),
            (3, 2, 1)
        );
    }

    #[test]
    fn without_a_rate_the_queue_limits_the_bytes_in_transit() {
        let mut link = link(Shape {
            delay_ns: MS,
            queue_bytes: 2_600,
            ..shape()
        });
        assert!(link.offer(0, FRAME, 1) && link.offer(0, FRAME, 2));
        assert!(!link.offer(0, FRAME, 3));
        assert!(link.pop_due(MS).is_some());
        assert!(link.offer(MS, FRAME, 4));
    }

    #[test]
    fn offered_packets_equal_the_sum_of_the_other_counts() {
        let mut link = link(Shape {
            delay_ns: 2 * MS,
            jitter_ns: MS,
            rate_bit_s: Some(5_000_000),
            loss: 0.1,
            queue_bytes: 20_000,
            down: false,
        });
        for number in 0..10_000 {
            let now = i64::from(number) * MS;
            link.offer(now, FRAME, number);
            link.pop_due(now);
        }
        let counters = link.counters();
        let in_transit = link.in_transit.len() as u64;
        assert_eq!(
            counters.offered_packets,
            counters.passed_packets
                + counters.lost_packets
                + counters.full_packets
                + counters.cut_packets
                + in_transit
        );
        assert!(counters.lost_packets > 0 && counters.full_packets > 0);
    }
}
