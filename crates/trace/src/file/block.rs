//! Encodes and decodes the events of a block in columns.
//!
//! There is a column for each field, one for starts, and two for shapes. The shape of an event
//! contains its call, the kind of its outcome, the fields that it has and those that have the
//! expected value ([`walk`]). A block has few shapes; each event refers to its own by number. Each
//! column is compressed separately, because bytes of different fields have nothing in common.

use std::collections::HashMap;
use std::io;

use zstd::bulk::{Compressor, Decompressor};

use super::BLOCK;
use super::bytes::{Bytes, put, unzigzag, zigzag};
use super::tables::Call;
use super::walk::{self, Channel, FIELDS, Fault, Field, Form, Next, Rule, State, Word};
use crate::event::{Event, Outcome, ThreadId};
use crate::hash::BuildMixer;
use crate::syscalls::{Effect, Syscall};

const STARTS: usize = FIELDS;
/// The number of the shape of each event.
const SHAPE: usize = FIELDS + 1;
/// The shapes, in the order of their numbers.
const SHAPES: usize = FIELDS + 2;
const COLUMNS: usize = FIELDS + 3;
/// Minimum length of a column for compression, bytes. Shorter ones would grow.
const MIN_COMPRESSED: usize = 32;
/// Level of zstd. Level 6 saves 3 % of real logs and takes 1.5 times as long; level 1 costs 1 % and
/// is not faster.
const LEVEL: i32 = 3;

/// The unit of most logs, ns. Division by a constant takes a few instructions, by a variable thirty
/// or more.
const MICROSECOND: u64 = 1_000;

/// `call << 34 | kind of outcome << 32 | fields it has << 16 | fields that are as expected`.
type Shape = u64;

fn shape(call: u32, outcome: Outcome, has: u16, expected: u16) -> Shape {
    let kind = match outcome {
        Outcome::Returned(_) => 0,
        Outcome::Failed(_) => 1,
        Outcome::Restarted => 2,
        Outcome::Unknown => 3,
    };
    u64::from(call) << 34 | kind << 32 | u64::from(has) << 16 | u64::from(expected)
}

/// Encodes blocks of events.
pub(super) struct Encoder {
    columns: [Vec<u8>; COLUMNS],
    shapes: HashMap<Shape, u64, BuildMixer>,
    state: State,
    compressor: Compressor<'static>,
    packed: Vec<u8>,
}

impl Encoder {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            columns: Default::default(),
            shapes: HashMap::default(),
            state: State::new(),
            compressor: Compressor::new(LEVEL)?,
            packed: Vec::new(),
        })
    }

    /// Puts events, each with the number and the rule of its call, into columns. `resolution` is
    /// the resolution of the recorder, ns. Returns the unit of the times in this block, ns, and the
    /// minimum lengths of the tables.
    pub fn take(&mut self, events: &[(Event, u32, Rule)], calls: usize, resolution: u64) -> (u64, Next) {
        self.columns.iter_mut().for_each(Vec::clear);
        self.shapes.clear();
        self.state.clear(calls);
        let unit = unit(events, resolution);
        for &(mut event, call, rule) in events {
            event.start_ns = match unit {
                MICROSECOND => event.start_ns / MICROSECOND as i64,
                _ => event.start_ns / unit as i64,
            };
            event.duration_ns = event.duration_ns.map(|ns| match unit {
                MICROSECOND => ns / MICROSECOND,
                _ => ns / unit,
            });
            let mut row = RowOut {
                columns: &mut self.columns,
                has: 0,
                expected: 0,
            };
            let Ok(()) = walk::walk(&mut row, &mut self.state, &mut event, call, rule) else {
                unreachable!("writing an event cannot fail");
            };
            let shape = shape(call, event.outcome, row.has, row.expected);
            let next = self.shapes.len() as u64;
            let number = *self.shapes.entry(shape).or_insert(next);
            if number == next {
                put(&mut self.columns[SHAPES], shape);
            }
            put(&mut self.columns[SHAPE], number);
        }
        (unit, self.state.next)
    }

    /// Appends the block of the last [`Self::take`]: its head, then its columns.
    pub fn put(&mut self, events: usize, unit: u64, out: &mut Vec<u8>) -> io::Result<()> {
        put(out, events as u64);
        put(out, unit);
        self.packed.clear();
        for column in &self.columns {
            let begin = self.packed.len();
            if column.len() >= MIN_COMPRESSED {
                compress(&mut self.compressor, column, &mut self.packed)?;
            }
            if !(1..column.len()).contains(&(self.packed.len() - begin)) {
                self.packed.truncate(begin);
                self.packed.extend_from_slice(column);
            }
            put(out, column.len() as u64);
            put(out, (self.packed.len() - begin) as u64);
        }
        out.extend_from_slice(&self.packed);
        Ok(())
    }
}

/// Appends `bytes`, compressed.
pub(super) fn compress(compressor: &mut Compressor<'_>, bytes: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    let begin = out.len();
    out.resize(begin + zstd::zstd_safe::compress_bound(bytes.len()), 0);
    let length = compressor.compress_to_buffer(bytes, &mut out[begin..])?;
    out.truncate(begin + length);
    Ok(())
}

/// The resolution if all times are multiples of it, otherwise 1.
fn unit(events: &[(Event, u32, Rule)], resolution: u64) -> u64 {
    let are_multiples = match i64::try_from(resolution) {
        Ok(..=1) | Err(_) => false,
        Ok(_) if resolution == MICROSECOND => are_multiples(events, MICROSECOND),
        Ok(_) => are_multiples(events, resolution),
    };
    if are_multiples { resolution } else { 1 }
}

#[inline]
fn are_multiples(events: &[(Event, u32, Rule)], unit: u64) -> bool {
    events.iter().all(|(event, ..)| {
        event.start_ns % unit as i64 == 0 && event.duration_ns.is_none_or(|ns| ns % unit == 0)
    })
}

struct RowOut<'a> {
    columns: &'a mut [Vec<u8>; COLUMNS],
    has: u16,
    expected: u16,
}

impl Channel for RowOut<'_> {
    #[inline]
    fn field<T: Word>(
        &mut self,
        field: Field,
        value: &mut Option<T>,
        expected: Option<T>,
        form: Form,
    ) -> Result<(), Fault> {
        let Some(value) = *value else { return Ok(()) };
        let bit = 1 << field as u16;
        self.has |= bit;
        if expected == Some(value) {
            self.expected |= bit;
        } else {
            put(&mut self.columns[field as usize], form.put(value.word()));
        }
        Ok(())
    }

    #[inline]
    fn start(&mut self, value: &mut i64, expected: i64) -> Result<(), Fault> {
        put(&mut self.columns[STARTS], zigzag(value.wrapping_sub(expected)));
        Ok(())
    }
}

/// A placeholder for calls that this build does not know.
static UNKNOWN_CALL: Syscall = Syscall::bare("", Effect::Other);

/// A shape of the file.
#[derive(Debug)]
struct KnownShape {
    call: u32,
    rule: Rule,
    has: u16,
    expected: u16,
    /// The event from which events of this shape start.
    blank: Event,
    is_known: bool,
}

impl KnownShape {
    fn new(shape: Shape, calls: &[Call]) -> Result<Self, Fault> {
        let call = (shape >> 34) as usize;
        let entry = calls
            .get(call)
            .ok_or("a shape refers to a call that is not in the table")?;
        let outcome = match shape >> 32 & 3 {
            0 => Outcome::Returned(0),
            1 => Outcome::Failed(0),
            2 => Outcome::Restarted,
            _ => Outcome::Unknown,
        };
        let thread = ThreadId::new(0).ok_or("there is no thread")?;
        Ok(Self {
            call: call as u32,
            rule: entry.rule,
            has: (shape >> 16) as u16,
            expected: shape as u16,
            blank: Event::new(thread, entry.call.unwrap_or(&UNKNOWN_CALL), 0, outcome),
            is_known: entry.call.is_some(),
        })
    }
}

/// Decodes blocks of events.
pub(super) struct Decoder {
    /// All columns, decompressed, in order.
    raw: Vec<u8>,
    shapes: Vec<KnownShape>,
    state: State,
    decompressor: Decompressor<'static>,
}

impl Decoder {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            raw: Vec::new(),
            shapes: Vec::new(),
            state: State::new(),
            decompressor: Decompressor::new()?,
        })
    }

    /// Reads the events of a block. Events whose call this build does not know are left out.
    /// Returns their number, and the minimum lengths of the tables.
    pub fn read(
        &mut self,
        mut body: Bytes<'_>,
        calls: &[Call],
        events: &mut Vec<Event>,
    ) -> Result<(usize, Next), Fault> {
        events.clear();
        let count = body.size().ok_or(SHORT)?;
        let unit = body.number().ok_or(SHORT)?;
        if count > BLOCK {
            return Err("a block has more than 16,384 events");
        }
        let mut columns = unpack(&mut self.decompressor, body, count, &mut self.raw)?;
        self.shapes.clear();
        while !columns[SHAPES].is_empty() {
            let shape = columns[SHAPES].number().ok_or("a shape is incomplete")?;
            if self.shapes.len() == count {
                return Err("a block has more shapes than events");
            }
            self.shapes.push(KnownShape::new(shape, calls)?);
        }
        self.state.clear(calls.len());
        events.reserve(count);
        for _ in 0..count {
            let number = columns[SHAPE].size().ok_or(SHORT)?;
            let known = self
                .shapes
                .get(number)
                .ok_or("an event refers to a shape that is not in its block")?;
            // The event is filled in place: it is larger than the data that are read for it.
            let at = events.len();
            events.push(known.blank);
            let event = &mut events[at];
            let mut row = RowIn {
                columns: &mut columns,
                has: known.has,
                expected: known.expected,
            };
            walk::walk(&mut row, &mut self.state, event, known.call, known.rule)?;
            event.start_ns = event.start_ns.wrapping_mul(unit as i64);
            event.duration_ns = event.duration_ns.map(|units| units.wrapping_mul(unit));
            if !known.is_known {
                events.truncate(at);
            }
        }
        if columns.iter().any(|column| !column.is_empty()) {
            return Err("a column is longer than its events need");
        }
        Ok((count - events.len(), self.state.next))
    }
}

const SHORT: Fault = "a column is shorter than its events need";

/// Decompresses the columns into `raw`.
fn unpack<'a>(
    decompressor: &mut Decompressor<'_>,
    mut body: Bytes<'_>,
    events: usize,
    raw: &'a mut Vec<u8>,
) -> Result<[Bytes<'a>; COLUMNS], Fault> {
    const CUT: Fault = "a block ends within its columns";
    let mut lengths = [(0, 0); COLUMNS];
    for length in &mut lengths {
        *length = (body.size().ok_or(CUT)?, body.size().ok_or(CUT)?);
        // A number has at most 10 bytes, and a column has at most one number per event.
        if length.0 > events * 10 {
            return Err("a column is longer than its events need");
        }
    }
    raw.resize(lengths.iter().map(|length| length.0).sum(), 0);
    let mut remaining = raw.as_mut_slice();
    let mut columns = [Bytes::default(); COLUMNS];
    for (column, (length, packed)) in columns.iter_mut().zip(lengths) {
        let packed = body.take(packed).ok_or(CUT)?;
        let (target, after) = remaining.split_at_mut(length);
        remaining = after;
        if packed.len() == length {
            target.copy_from_slice(packed);
        } else if !decompressor
            .decompress_to_buffer(packed, target)
            .is_ok_and(|written| written == length)
        {
            return Err("a column cannot be decompressed");
        }
        *column = Bytes(target);
    }
    if body.is_empty() {
        Ok(columns)
    } else {
        Err("data follow the last column of a block")
    }
}

struct RowIn<'a, 'b> {
    columns: &'a mut [Bytes<'b>; COLUMNS],
    has: u16,
    expected: u16,
}

impl Channel for RowIn<'_, '_> {
    #[inline]
    fn field<T: Word>(
        &mut self,
        field: Field,
        value: &mut Option<T>,
        expected: Option<T>,
        form: Form,
    ) -> Result<(), Fault> {
        let bit = 1 << field as u16;
        if self.has & bit == 0 {
            *value = None;
        } else if self.expected & bit != 0 {
            *value = Some(expected.ok_or("a field has the expected value, but none is expected")?);
        } else {
            let stored = self.columns[field as usize].number().ok_or(SHORT)?;
            *value = Some(T::from_word(form.take(stored)).ok_or("a field is out of range")?);
        }
        Ok(())
    }

    #[inline]
    fn start(&mut self, value: &mut i64, expected: i64) -> Result<(), Fault> {
        let stored = self.columns[STARTS].number().ok_or(SHORT)?;
        *value = expected.wrapping_add(unzigzag(stored));
        Ok(())
    }
}
