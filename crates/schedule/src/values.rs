//! Templates of the texts of requests, and the values that replace `{name}` in them.

use std::collections::BTreeMap;
use std::io::Write as _;

use plimsoll_model::{Generator, Order};
use rand_distr::{Distribution, Zipf};
use rand_pcg::rand_core::Rng as _;

use crate::random::{Rng, Stream, rng, uniform};

/// The generators of the values of a workload.
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
    /// `ends`: upper ends of the intervals of the items in 0..2^64, without the last.
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
    /// A number, of a generator of numbers.
    Number(i64),
    /// Index into the list of the generator that drew it.
    Item(u32),
}

/// State of the draws of one tester.
#[derive(Debug, Clone)]
pub struct Draws {
    rng: Rng,
    /// Per generator: number of the next item of a list in turn, before the division by its length.
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

    /// Sets the number of the transaction in the workload for the next draw, from 0.
    pub fn at(&mut self, position: u64) {
        self.position = position;
    }
}

impl Values {
    /// Compiles generators, which `RunSpec::check` has accepted.
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

    /// The state of a tester before its first draw. A list in turn begins at item `tester %
    /// length`, so that testers do not all use the same item at the same time.
    pub fn start(&self, seed: u64, workload: u64, tester: u64) -> Draws {
        Draws {
            rng: rng(seed, Stream::Values, workload, tester),
            turns: vec![tester; self.sources.len()],
            position: 0,
            values: vec![Value::Number(0); self.sources.len()],
        }
    }

    /// Draws new values for the generators that a request uses (`used`: from [`UsedValues`]). Each
    /// is drawn once per request, so that a name has the same value everywhere in the request.
    pub fn draw<'a>(&self, used: &[usize], draws: &'a mut Draws) -> &'a [Value] {
        for &generator in used {
            draws.values[generator] = match &self.sources[generator] {
                Source::Uniform { from, width } => {
                    Value::Number(from.wrapping_add(uniform(&mut draws.rng, *width) as i64))
                }
                Source::Zipf(zipf) => Value::Number(zipf.sample(&mut draws.rng) as i64),
                Source::List { items, order } => {
                    let length = items.len().max(1) as u64;
                    let index = match order {
                        Order::RoundRobin => draws.turns[generator] % length,
                        Order::Random => uniform(&mut draws.rng, length),
                    };
                    draws.turns[generator] += 1;
                    Value::Item(index as u32)
                }
                Source::Weighted { ends, .. } => {
                    let point = draws.rng.next_u64();
                    Value::Item(ends.partition_point(|&end| end <= point) as u32)
                }
                Source::Recorded { order, .. } => {
                    Value::Item(order[(draws.position % order.len() as u64) as usize])
                }
            };
        }
        &draws.values
    }

    fn write(&self, generator: usize, value: Value, out: &mut Vec<u8>) {
        match (value, &self.sources[generator]) {
            (
                Value::Item(index),
                Source::List { items, .. } | Source::Weighted { items, .. } | Source::Recorded { items, .. },
            ) => {
                out.extend_from_slice(items.get(index as usize).map_or("", String::as_str).as_bytes());
            }
            (Value::Number(number), _) => write_number(out, number),
            (Value::Item(_), _) => {}
        }
    }
}

/// Upper ends of the intervals of 0..2^64 whose lengths are proportional to `weights`, without the
/// last.
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

/// The values that the texts of a request contain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsedValues {
    /// Indices of the generators whose values occur in the texts, each once.
    pub values: Vec<usize>,
    /// Whether `{now_us}` occurs. The clock is read only in this case.
    pub now: bool,
}

/// A text with placeholders: `{tester}`, `{n}`, `{endpoint}`, `{now_us}` and the names of the
/// workload's values. `{{name}}` becomes the text `{name}`; other braces are not changed.
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

/// The values that replace the placeholders of a template.
#[derive(Debug, Clone, Copy)]
pub struct Fill<'a> {
    /// Number of the tester.
    pub tester: u32,
    /// Number of the transaction within this tester, from 0.
    pub n: u64,
    /// URL of its endpoint.
    pub endpoint: &'a str,
    /// Time at which the request was built, µs since the Unix epoch; not used if
    /// [`UsedValues::now`] is false.
    pub now_us: u64,
    /// The generators.
    pub values: &'a Values,
    /// Values of the generators for this transaction, one per generator.
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
                .and_then(|close| Some((close, placeholder(&rest[1..close], values)?)));
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

    /// The text if it has no placeholder; none otherwise.
    pub fn constant(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Adds the values that this template contains to `used`.
    pub fn used(&self, used: &mut UsedValues) {
        for part in &self.parts {
            match part {
                Part::Value(generator) if !used.values.contains(generator) => used.values.push(*generator),
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
                Part::Value(generator) => fill.values.write(*generator, fill.drawn[*generator], out),
            }
        }
    }
}

/// Length of `{{name}}` at the start of `text`; none if `text` does not begin with it.
fn escaped(text: &str) -> Option<usize> {
    let inner = text.strip_prefix("{{")?;
    let name = inner
        .bytes()
        .take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        .count();
    (name > 0 && inner[name..].starts_with("}}")).then_some(name + 4)
}

fn placeholder(name: &str, values: &Values) -> Option<Part> {
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
        let mut used = UsedValues::default();
        template.used(&mut used);
        let row = values.draw(&used.values, draws).to_vec();
        let mut out = Vec::new();
        template.fill(
            &Fill {
                tester,
                n,
                endpoint: "http://h/",
                now_us: 1_700_000_000_123_456,
                values,
                drawn: &row,
            },
            &mut out,
        );
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn double_braces_around_a_name_become_single_braces() {
        let values = values(&[]);
        let mut draws = values.start(1, 0, 0);
        let mut text = |text| filled(text, &values, &mut draws, 3, 7);
        assert_eq!(text("{{n}} is {n}, {{unknown}}"), "{n} is 7, {unknown}");
        assert_eq!(text("{{}} {{ n }} {{n} {n}}"), "{{}} {{ n }} {7 7}");
    }

    #[test]
    fn templates_replace_known_names_and_keep_other_braces() {
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
    fn templates_report_each_value_that_they_contain_once() {
        let values = values(&[
            ("a", Generator::Uniform { from: 0, to: 1 }),
            ("b", Generator::Uniform { from: 0, to: 1 }),
        ]);
        let mut used = UsedValues::default();
        Template::new("{b} {n} {b}", &values).used(&mut used);
        assert_eq!((used.values.as_slice(), used.now), (&[1][..], false));
        Template::new("{now_us} {a}", &values).used(&mut used);
        assert_eq!((used.values.as_slice(), used.now), (&[1, 0][..], true));
    }

    #[test]
    fn a_list_in_turn_begins_at_the_number_of_the_tester() {
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
    fn weighted_texts_have_the_frequencies_of_their_weights() {
        let weights = vec![5.0, 0.0, 3.0, 2.0];
        let items = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        let values = values(&[("w", Generator::Weighted { items, weights })]);
        let mut draws = values.start(5, 0, 0);
        let mut counts = [0_i32; 4];
        for _ in 0..100_000 {
            let Value::Item(index) = values.draw(&[0], &mut draws)[0] else {
                panic!("a text is an item")
            };
            counts[index as usize] += 1;
        }
        // Five standard deviations of a binomial(100000, 1/2) are 790.
        for (count, expected) in counts.iter().zip([50_000, 0, 30_000, 20_000]) {
            assert!((count - expected).abs() < 790, "{counts:?}");
        }
        assert_eq!(counts[1], 0);
    }

    #[test]
    fn a_value_of_a_recording_depends_only_on_the_position() {
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
    fn a_uniform_range_may_contain_all_integers() {
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
