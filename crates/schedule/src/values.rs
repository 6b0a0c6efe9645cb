//! Values for `{name}` in the texts of requests, and those texts.

use std::collections::BTreeMap;
use std::io::Write as _;

use plimsoll_model::{Generator, Order};
use rand_distr::{Distribution, Zipf};
use rand_pcg::rand_core::Rng as _;

use crate::share::{Rng, Stream, rng, uniform};

/// The generators of a workload.
#[derive(Debug, Clone)]
pub struct Values {
    names: Vec<String>,
    sources: Vec<Source>,
}

#[derive(Debug, Clone)]
enum Source {
    Uniform {
        from: i64,
        width: u64,
    },
    Zipf(Zipf<f64>),
    List {
        items: Vec<String>,
        order: Order,
    },
    /// Upper ends of the items' shares of 0..2^64, without the last.
    Weighted {
        items: Vec<String>,
        ends: Vec<u64>,
    },
    Recorded {
        items: Vec<String>,
        order: Vec<u32>,
    },
}

/// One drawn value; texts of lists stay in [`Values`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(i64),
    /// Position in the list of the generator that drew it.
    Item(u32),
}

/// Where one tester stands in its draws.
#[derive(Debug, Clone)]
pub struct Draws {
    rng: Rng,
    turns: Vec<u64>,
    /// Number of the transaction in the workload, for recordings.
    position: u64,
    values: Vec<Value>,
}

impl Draws {
    /// The values of the last draw, one per generator.
    pub fn last(&self) -> &[Value] {
        &self.values
    }

    /// Says which transaction of the workload the next draw is for.
    pub fn at(&mut self, position: u64) {
        self.position = position;
    }
}

impl Values {
    /// Of checked generators (`RunSpec::check`).
    pub fn new(generators: &BTreeMap<String, Generator>) -> Self {
        let source = |generator: &Generator| match generator {
            Generator::Uniform { from, to } => Source::Uniform {
                from: *from,
                width: (to.wrapping_sub(*from) as u64).saturating_add(1),
            },
            Generator::Zipf { n, s } => match Zipf::new(*n as f64, *s) {
                Ok(zipf) => Source::Zipf(zipf),
                Err(_) => Source::Uniform { from: 1, width: 1 },
            },
            Generator::List { items, order } => Source::List {
                items: items.clone(),
                order: *order,
            },
            Generator::Weighted { items, weights } => Source::Weighted {
                items: items.clone(),
                ends: ends(weights),
            },
            Generator::Recorded { items, order } => Source::Recorded {
                items: items.clone(),
                order: order.clone(),
            },
        };
        Self {
            names: generators.keys().cloned().collect(),
            sources: generators.values().map(source).collect(),
        }
    }

    /// The beginning of a tester's draws. Lists in turn begin at item `tester % length`, so that
    /// testers do not march in step.
    pub fn start(&self, seed: u64, workload: u64, tester: u64) -> Draws {
        Draws {
            rng: rng(seed, Stream::Values, workload, tester),
            turns: vec![tester; self.sources.len()],
            position: 0,
            values: vec![Value::Number(0); self.sources.len()],
        }
    }

    /// Draws anew those values that a request uses (`used`: from [`Used`]). A value that stands
    /// twice in one request is the same in both places.
    pub fn draw<'a>(&self, used: &[usize], draws: &'a mut Draws) -> &'a [Value] {
        for &which in used {
            draws.values[which] = match &self.sources[which] {
                Source::Uniform { from, width } => {
                    Value::Number(from.wrapping_add(uniform(&mut draws.rng, *width) as i64))
                }
                Source::Zipf(zipf) => Value::Number(zipf.sample(&mut draws.rng) as i64),
                Source::List { items, order } => {
                    let length = items.len().max(1) as u64;
                    let at = match order {
                        Order::RoundRobin => draws.turns[which] % length,
                        Order::Random => uniform(&mut draws.rng, length),
                    };
                    draws.turns[which] += 1;
                    Value::Item(at as u32)
                }
                Source::Weighted { ends, .. } => {
                    let at = draws.rng.next_u64();
                    Value::Item(ends.partition_point(|&end| end <= at) as u32)
                }
                Source::Recorded { order, .. } => {
                    Value::Item(order[(draws.position % order.len() as u64) as usize])
                }
            };
        }
        &draws.values
    }

    fn write(&self, which: usize, value: Value, out: &mut Vec<u8>) {
        match (value, &self.sources[which]) {
            (
                Value::Item(at),
                Source::List { items, .. } | Source::Weighted { items, .. } | Source::Recorded { items, .. },
            ) => {
                out.extend_from_slice(items.get(at as usize).map_or("", String::as_str).as_bytes());
            }
            (Value::Number(number), _) => write_number(out, number),
            (Value::Item(_), _) => {}
        }
    }
}

/// Upper ends of shares of 0..2^64, without the last.
pub(crate) fn ends(weights: &[f64]) -> Vec<u64> {
    let total: f64 = weights.iter().sum();
    let mut sum = 0.0;
    let mut ends = Vec::with_capacity(weights.len());
    for weight in &weights[..weights.len().saturating_sub(1)] {
        sum += weight;
        ends.push((sum / total * 2_f64.powi(64)) as u64);
    }
    ends
}

fn write_number(out: &mut Vec<u8>, number: impl std::fmt::Display) {
    // Writing to a vector cannot fail.
    let _ = write!(out, "{number}");
}

/// What the texts of a request take from outside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Used {
    /// Indices of the values that stand in them, each once.
    pub values: Vec<usize>,
    /// Whether the time does: it is read only for those who say it.
    pub now: bool,
}

/// A text with places to fill: `{tester}`, `{n}`, `{endpoint}`, `{now_us}` and the names of the
/// workload's values. Any `{{name}}` is `{name}`, literally; other braces are text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Tester,
    Number,
    Endpoint,
    Now,
    Value(usize),
}

/// What a template is filled with.
#[derive(Debug, Clone, Copy)]
pub struct Fill<'a> {
    /// Number of the tester.
    pub tester: u32,
    /// Number of the transaction of this tester, from 0.
    pub n: u64,
    /// URL of its endpoint.
    pub endpoint: &'a str,
    /// When the request was made, us since 1970; anything where no text of it says it.
    pub now_us: u64,
    /// The generators.
    pub values: &'a Values,
    /// What they gave for this transaction.
    pub drawn: &'a [Value],
}

impl Template {
    /// Compiles `text` with the names of `values`.
    pub fn new(text: &str, values: &Values) -> Self {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            plain.push_str(&rest[..open]);
            rest = &rest[open..];
            if let Some(length) = escaped(rest) {
                plain.push_str(&rest[1..length - 1]);
                rest = &rest[length..];
                continue;
            }
            let named = rest
                .find('}')
                .and_then(|close| Some((close, place(&rest[1..close], values)?)));
            if let Some((close, part)) = named {
                if !plain.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                }
                parts.push(part);
                rest = &rest[close + 1..];
            } else {
                plain.push('{');
                rest = &rest[1..];
            }
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Self { parts }
    }

    /// The text itself if there is nothing to fill.
    pub fn constant(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Adds what stands in it to `used`.
    pub fn used(&self, used: &mut Used) {
        for part in &self.parts {
            match part {
                Part::Value(which) if !used.values.contains(which) => used.values.push(*which),
                Part::Now => used.now = true,
                _ => {}
            }
        }
    }

    /// Appends the filled text to `out`.
    pub fn fill(&self, fill: &Fill<'_>, out: &mut Vec<u8>) {
        for part in &self.parts {
            match part {
                Part::Text(text) => out.extend_from_slice(text.as_bytes()),
                Part::Tester => write_number(out, fill.tester),
                Part::Number => write_number(out, fill.n),
                Part::Endpoint => out.extend_from_slice(fill.endpoint.as_bytes()),
                Part::Now => write_number(out, fill.now_us),
                Part::Value(which) => fill.values.write(*which, fill.drawn[*which], out),
            }
        }
    }
}

/// Length of `{{name}}` at the start of a text: it stands for `{name}`, literally.
fn escaped(text: &str) -> Option<usize> {
    let inner = text.strip_prefix("{{")?;
    let name = inner
        .bytes()
        .take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        .count();
    (name > 0 && inner[name..].starts_with("}}")).then_some(name + 4)
}

fn place(name: &str, values: &Values) -> Option<Part> {
    match name {
        "tester" => Some(Part::Tester),
        "n" => Some(Part::Number),
        "endpoint" => Some(Part::Endpoint),
        "now_us" => Some(Part::Now),
        _ => values
            .names
            .iter()
            .position(|known| known == name)
            .map(Part::Value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(generators: &[(&str, Generator)]) -> Values {
        Values::new(
            &generators
                .iter()
                .map(|(name, generator)| ((*name).to_owned(), generator.clone()))
                .collect(),
        )
    }

    fn filled(text: &str, values: &Values, draws: &mut Draws, tester: u32, n: u64) -> String {
        let template = Template::new(text, values);
        let mut used = Used::default();
        template.used(&mut used);
        let found = values.draw(&used.values, draws).to_vec();
        let mut out = Vec::new();
        template.fill(
            &Fill {
                tester,
                n,
                endpoint: "http://h/",
                now_us: 1_700_000_000_123_456,
                values,
                drawn: &found,
            },
            &mut out,
        );
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn double_braces_around_a_name_are_single_ones_in_the_text() {
        let values = values(&[]);
        let mut draws = values.start(1, 0, 0);
        let mut text = |text| filled(text, &values, &mut draws, 3, 7);
        assert_eq!(text("{{n}} is {n}, {{unknown}}"), "{n} is 7, {unknown}");
        assert_eq!(text("{{}} {{ n }} {{n} {n}}"), "{{}} {{ n }} {7 7}");
    }

    #[test]
    fn templates_fill_what_they_know_and_keep_the_rest() {
        let values = values(&[("id", Generator::Uniform { from: 5, to: 5 })]);
        let mut draws = values.start(1, 0, 0);
        for (text, expected) in [
            ("", ""),
            ("plain", "plain"),
            (
                "/t{tester}/{n}?e={endpoint}&id={id}&again={id}",
                "/t3/9?e=http://h/&id=5&again=5",
            ),
            ("{\"json\": {\"id\": {id}}}", "{\"json\": {\"id\": 5}}"),
            ("{unknown} {id", "{unknown} {id"),
            ("{{id}} {{unknown}}", "{id} {unknown}"),
            ("}{", "}{"),
            ("é{n}é", "é9é"),
            ("v={now_us} v<{now_us}", "v=1700000000123456 v<1700000000123456"),
        ] {
            assert_eq!(filled(text, &values, &mut draws, 3, 9), expected, "{text}");
        }
        assert_eq!(Template::new("{unknown}", &values).constant(), Some("{unknown}"));
        assert_eq!(Template::new("{n}", &values).constant(), None);
    }

    #[test]
    fn templates_say_what_they_use() {
        let values = values(&[
            ("a", Generator::Uniform { from: 0, to: 1 }),
            ("b", Generator::Uniform { from: 0, to: 1 }),
        ]);
        let mut used = Used::default();
        Template::new("{b} {n} {b}", &values).used(&mut used);
        assert_eq!((used.values.as_slice(), used.now), (&[1][..], false));
        Template::new("{now_us} {a}", &values).used(&mut used);
        assert_eq!((used.values.as_slice(), used.now), (&[1, 0][..], true));
    }

    #[test]
    fn lists_go_in_turn_from_the_testers_own_place() {
        let items = ["a", "b", "c"].map(str::to_owned).to_vec();
        let values = values(&[(
            "v",
            Generator::List {
                items,
                order: Order::RoundRobin,
            },
        )]);
        let sequence = |tester: u32| {
            let mut draws = values.start(1, 0, u64::from(tester));
            (0..4)
                .map(|n| filled("{v}", &values, &mut draws, tester, n))
                .collect::<String>()
        };
        assert_eq!(sequence(0), "abca");
        assert_eq!(sequence(1), "bcab");
    }

    #[test]
    fn zipf_ranks_have_their_probabilities() {
        let values = values(&[("k", Generator::Zipf { n: 1_000, s: 1.0 })]);
        let mut draws = values.start(11, 0, 0);
        let mut counts = vec![0_f64; 1_001];
        for _ in 0..200_000 {
            let Value::Number(rank) = values.draw(&[0], &mut draws)[0] else {
                panic!("a rank is a number")
            };
            counts[rank as usize] += 1.0;
        }
        let harmonic: f64 = (1..=1_000).map(|k| 1.0 / f64::from(k)).sum();
        for rank in [1, 2, 10, 100] {
            let p = 1.0 / f64::from(rank) / harmonic;
            let sd = (200_000.0 * p * (1.0 - p)).sqrt();
            let off = counts[rank as usize] - 200_000.0 * p;
            assert!(
                off.abs() < 5.0 * sd,
                "rank {rank}: {} against {}",
                counts[rank as usize],
                200_000.0 * p
            );
        }
    }

    #[test]
    fn weighted_texts_come_as_often_as_their_weights_say() {
        let weights = vec![5.0, 0.0, 3.0, 2.0];
        let items = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        let values = values(&[("w", Generator::Weighted { items, weights })]);
        let mut draws = values.start(5, 0, 0);
        let mut counts = [0_i32; 4];
        for _ in 0..100_000 {
            let Value::Item(at) = values.draw(&[0], &mut draws)[0] else {
                panic!("a text is an item")
            };
            counts[at as usize] += 1;
        }
        // Five standard deviations of a binomial(100000, 1/2) are 790.
        for (count, expected) in counts.iter().zip([50_000, 0, 30_000, 20_000]) {
            assert!((count - expected).abs() < 790, "{counts:?}");
        }
        assert_eq!(counts[1], 0);
    }

    #[test]
    fn a_recording_is_taken_by_position_whoever_asks() {
        let items = ["x", "y", "z"].map(str::to_owned).to_vec();
        let order = vec![2, 0, 0, 1];
        let values = values(&[("r", Generator::Recorded { items, order })]);
        let taken = |tester: u64, position: u64| {
            let mut draws = values.start(1, 0, tester);
            draws.at(position);
            filled("{r}", &values, &mut draws, 0, 0)
        };
        let all: String = (0..6).map(|position| taken(position % 3, position)).collect();
        assert_eq!(all, "zxxyzx");
    }

    #[test]
    fn a_uniform_range_may_be_the_widest() {
        let values = values(&[(
            "k",
            Generator::Uniform {
                from: i64::MIN,
                to: i64::MAX,
            },
        )]);
        let mut draws = values.start(1, 0, 0);
        let signs: Vec<bool> = (0..100)
            .map(|_| matches!(values.draw(&[0], &mut draws)[0], Value::Number(n) if n < 0))
            .collect();
        assert!(signs.contains(&true) && signs.contains(&false));
    }
}
