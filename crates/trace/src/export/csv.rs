//! CSV (RFC 4180): one row per event, with all fields.

use std::fmt::{Display, Write as _};
use std::io::Write;

use super::escape::escape;
use super::row::{COLUMNS, File, KINDS, OUTCOMES, Row, Thread, kind, outcome};
use super::{Export, ExportError, Tally};
use crate::event::{Event, OpenId, PathId};
use crate::names::Names;

/// Version of the format. It is also the name of the first column, which contains the number of the
/// event from 0.
pub const FORMAT: &str = "plimsoll.trace.csv/1";

/// Writes CSV. Lines end with CR LF, as in the standard.
pub struct Csv<'a, W: Write> {
    out: W,
    names: &'a Names,
    line: String,
    name: String,
    tally: Tally,
}

impl<'a, W: Write> Csv<'a, W> {
    /// Writes the header. A buffer of `out` need not be larger than a line.
    ///
    /// # Errors
    /// [`ExportError::Io`].
    pub fn new(mut out: W, names: &'a Names) -> Result<Self, ExportError> {
        write!(out, "{FORMAT},{}\r\n", COLUMNS.join(","))?;
        Ok(Self {
            out,
            names,
            line: String::new(),
            name: String::new(),
            tally: Tally::default(),
        })
    }

    /// Appends a field.
    fn put(&mut self, value: Option<impl Display>) {
        self.line.push(',');
        if let Some(value) = value {
            // Writing to a String does not fail.
            let _ = write!(self.line, "{value}");
        }
    }

    fn name(&mut self, path: Option<PathId>) {
        self.line.push(',');
        let Some(path) = path else { return };
        self.name.clear();
        escape(self.names.path(path), &mut self.name);
        // An empty path has quotes, because an empty field means that there is none.
        if self.name.is_empty() || self.name.contains([',', '"', ' ']) {
            self.line.push('"');
            self.line.push_str(&self.name.replace('"', "\"\""));
            self.line.push('"');
        } else {
            self.line.push_str(&self.name);
        }
    }

    fn thread(&mut self, thread: Option<Thread>) {
        self.put(thread.map(|thread| thread.id.index()));
        self.put(thread.map(|thread| thread.tid));
        self.put(thread.map(|thread| thread.pid));
    }

    fn file(&mut self, file: Option<File>) {
        self.put(file.map(|file| file.id.index()));
        self.put(file.map(|file| KINDS[usize::from(kind(file.kind))]));
        self.name(file.map(|file| file.name));
    }
}

impl<W: Write> Export for Csv<'_, W> {
    fn event(&mut self, event: &Event) -> Result<(), ExportError> {
        let row = Row::new(event, self.names);
        self.line.clear();
        let _ = write!(self.line, "{}", self.tally.events);
        self.thread(row.thread);
        self.put(Some(event.call.name));
        self.put(Some(event.start_ns));
        self.put(event.duration_ns);
        self.put(event.cpu_ns);
        self.put(Some(OUTCOMES[usize::from(outcome(event.outcome))]));
        self.put(row.value);
        self.put(row.errno);
        self.put(event.open.map(OpenId::index));
        self.put(event.open2.map(OpenId::index));
        self.file(row.file);
        self.file(row.file2);
        self.name(event.path);
        self.name(event.path2);
        self.put(event.offset);
        self.put(event.offset2);
        self.put(event.length);
        self.put(event.flags);
        self.put(event.mode);
        self.thread(row.other);
        self.line.push_str("\r\n");
        self.out.write_all(self.line.as_bytes())?;
        self.tally.events += 1;
        self.tally.written += 1;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Tally, ExportError> {
        Ok(self.tally)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::str::FromStr;

    use super::super::sample;
    use super::*;
    use crate::event::{FileId, Outcome, ThreadId};
    use crate::syscalls;

    fn parsed<T: FromStr>(row: &HashMap<&str, Option<String>>, column: &str) -> Option<T> {
        let text = row[column].as_deref()?;
        Some(text.parse().unwrap_or_else(|_| panic!("{column}: {text}")))
    }

    /// The event of a row. `texts` are the escaped paths.
    fn event(row: &HashMap<&str, Option<String>>, texts: &[String]) -> Event {
        let id = |column| parsed::<usize>(row, column);
        let path = |column: &str| {
            let text = row[column].as_ref()?;
            PathId::new(texts.iter().position(|known| known == text).unwrap())
        };
        let outcome = match row["outcome"].as_deref().unwrap() {
            "returned" => Outcome::Returned(parsed(row, "value").unwrap()),
            "failed" => Outcome::Failed(parsed(row, "errno").unwrap()),
            "restarted" => Outcome::Restarted,
            word => {
                assert_eq!(word, "unknown");
                Outcome::Unknown
            }
        };
        let call = syscalls::find(row["call"].as_ref().unwrap().as_bytes()).unwrap();
        let thread = ThreadId::new(id("thread").unwrap()).unwrap();
        Event {
            duration_ns: parsed(row, "duration_ns"),
            cpu_ns: parsed(row, "cpu_ns"),
            open: id("open").and_then(OpenId::new),
            open2: id("open2").and_then(OpenId::new),
            file: id("file").and_then(FileId::new),
            file2: id("file2").and_then(FileId::new),
            path: path("path"),
            path2: path("path2"),
            offset: parsed(row, "offset"),
            offset2: parsed(row, "offset2"),
            length: parsed(row, "length"),
            flags: parsed(row, "flags"),
            mode: parsed(row, "mode"),
            other: id("other").and_then(ThreadId::new),
            ..Event::new(thread, call, parsed(row, "start_ns").unwrap(), outcome)
        }
    }

    #[test]
    fn all_fields_of_an_event_can_be_restored() {
        let (names, events) = (sample::names(), sample::events());
        let mut out = Vec::new();
        let tally = sample::export(&events, &mut out, |out| Box::new(Csv::new(out, &names).unwrap()));
        assert_eq!((tally.events, tally.written), (10, 10));
        assert!(tally.left_out.is_empty() && tally.changed.is_empty());

        let mut rows = sample::fields(std::str::from_utf8(&out).unwrap());
        let header: Vec<String> = rows.remove(0).into_iter().flatten().collect();
        assert_eq!(header[0], FORMAT);
        assert_eq!(header[1..], COLUMNS);
        let texts: Vec<String> = (names.paths().iter())
            .map(|path| {
                let mut text = String::new();
                escape(path, &mut text);
                text
            })
            .collect();
        for (number, (row, expected)) in rows.into_iter().zip(&events).enumerate() {
            assert_eq!(row.len(), header.len());
            let row: HashMap<&str, Option<String>> = header.iter().map(String::as_str).zip(row).collect();
            assert_eq!(parsed(&row, FORMAT), Some(number));
            assert_eq!(event(&row, &texts), *expected);
        }
    }

    #[test]
    fn a_row_contains_the_paths_and_process_ids() {
        let names = sample::names();
        let mut out = Vec::new();
        sample::export(&sample::events()[3..4], &mut out, |out| {
            Box::new(Csv::new(out, &names).unwrap())
        });
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text.lines().nth(1).unwrap(),
            "0,2,90,90,sendfile,60000,10000,,returned,5000,,0,1,0,file,/data/in.root,1,file,\
             \"/data/out, \"\"new\"\"\\x0a\\xff\",,,4096,7,5000,,,,,"
        );
    }
}
