//! Messages of prepared statements ("Extended Query" in the documentation of `PostgreSQL`).
//!
//! They are written here and not by `postgres-protocol`, so that an execution needs no buffer of
//! its own.

/// Parses a statement, whose types the server infers, and asks for the columns of its result.
pub(super) fn prepare(name: &str, sql: &str, out: &mut Vec<u8>) {
    message(b'P', out, |body| {
        text(name, body);
        text(sql, body);
        short(0, body); // types of values
    });
    message(b'D', out, |body| {
        body.push(b'S');
        text(name, body);
    });
    message(b'S', out, |_| {});
}

/// Binds the unnamed portal to values as text, and executes it. All results are text.
pub(super) fn execute<'v>(name: &str, values: impl Iterator<Item = &'v [u8]>, out: &mut Vec<u8>) {
    message(b'B', out, |body| {
        text("", body);
        text(name, body);
        short(0, body); // formats of values
        let at = body.len();
        short(0, body);
        let mut count: u16 = 0;
        for value in values {
            count += 1;
            body.extend_from_slice(&(value.len() as u32).to_be_bytes());
            body.extend_from_slice(value);
        }
        body[at..at + 2].copy_from_slice(&count.to_be_bytes());
        short(0, body); // formats of results
    });
    message(b'E', out, |body| {
        text("", body);
        body.extend_from_slice(&0_u32.to_be_bytes()); // all rows
    });
    message(b'S', out, |_| {});
}

/// Whether a message only confirms a step: `ParseComplete`, `BindComplete`, `NoData`,
/// `ParameterDescription`.
pub(super) fn is_acknowledgement(tag: u8) -> bool {
    matches!(tag, b'1' | b'2' | b'n' | b't')
}

fn message(tag: u8, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = (out.len() - at) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// A text ends at its first NUL.
fn text(text: &str, body: &mut Vec<u8>) {
    let end = text.find('\0').unwrap_or(text.len());
    body.extend_from_slice(&text.as_bytes()[..end]);
    body.push(0);
}

fn short(number: u16, body: &mut Vec<u8>) {
    body.extend_from_slice(&number.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_documentation() {
        let mut out = Vec::new();
        prepare("s", "SELECT $1", &mut out);
        assert_eq!(out, b"P\0\0\0\x12s\0SELECT $1\0\0\0D\0\0\0\x07Ss\0S\0\0\0\x04");
        out.clear();
        execute("s", [&b"7"[..], b"ab"].into_iter(), &mut out);
        let bind = b"B\0\0\0\x18\0s\0\0\0\0\x02\0\0\0\x017\0\0\0\x02ab\0\0";
        let rest = b"E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04";
        assert_eq!(out, [&bind[..], rest].concat());
    }
}
