use super::*;
use crate::frontier::{example, frame};

fn verify(body: &[u8]) -> Result<Summary, DocumentError> {
    Reader::new(1 << 20).verify(body)
}

fn changed(from: &str, to: &str) -> Result<Summary, DocumentError> {
    let body = String::from_utf8(example::zipped_document()).unwrap();
    assert!(body.contains(from), "{from}");
    verify(body.replace(from, to).as_bytes())
}

#[test]
fn the_worked_example_verifies_in_every_encoding() {
    let expected = Summary {
        payloads: 1,
        rows: 2,
        payload_bytes: 125,
        ..Summary::default()
    };
    assert_eq!(verify(&example::zipped_document()), Ok(expected.clone()));
    for encoding in ["BLOB", "BLOBzip", "BLOBzip1", "BLOBzip5", "BLOBzip9"] {
        let mut payloads = Vec::new();
        let body = example::document(encoding, &example::plain());
        let summary = Reader::new(125).read(&body, |number, plain| payloads.push((number, plain.to_vec())));
        assert_eq!(summary, Ok(expected.clone()), "{encoding}");
        assert_eq!(payloads, [(1, example::plain())]);
    }
}

#[test]
fn every_kind_of_damage_has_its_error() {
    let number = 1;
    assert_eq!(changed("eF5j", "eF5k"), Err(DocumentError::Md5(1)));
    assert_eq!(changed("c8b48c", "c8b48d"), Err(DocumentError::Md5(1)));
    assert_eq!(changed("eF5j", "e*5j"), Err(DocumentError::Base64(1)));
    assert_eq!(
        changed("records=\"2\"", "records=\"3\""),
        Err(DocumentError::Records {
            number,
            announced: 3,
            found: 2
        })
    );
    assert_eq!(
        changed("=\"125\"", "=\"124\""),
        Err(DocumentError::Size {
            number,
            announced: 124,
            found: 125
        })
    );
    assert_eq!(
        changed("=\"125\"", "=\"126\""),
        Err(DocumentError::Size {
            number,
            announced: 126,
            found: 125
        })
    );
    let huge = DocumentError::TooBig {
        number,
        announced: 9_999_999_999,
        limit: 1 << 20,
    };
    assert_eq!(changed("=\"125\"", "=\"9999999999\""), Err(huge));
    assert_eq!(changed("BLOBzip5", "BLOBzap5"), Err(DocumentError::Encoding(1)));
    assert_eq!(
        changed("error=\"0\"", ""),
        Err(DocumentError::Quality {
            number,
            attribute: "error"
        })
    );
    assert_eq!(changed("</frontier>", ""), Err(DocumentError::Truncated));
    assert_eq!(
        changed("payloads=\"1\"", "payloads=\"2\""),
        Err(DocumentError::Payloads {
            announced: 2,
            found: 1
        })
    );
    assert!(matches!(
        changed("<data>", ""),
        Err(DocumentError::Misplaced { .. })
    ));
    // Plain bytes with the name of a compressed encoding and a correct digest, as BLOBzip0
    // would produce them.
    let body = String::from_utf8(example::document("BLOB", &example::plain())).unwrap();
    assert_eq!(
        verify(body.replace("BLOB", "BLOBzip5").as_bytes()),
        Err(DocumentError::Inflate(1))
    );
    assert_eq!(verify(b"<html>502</html>"), Err(DocumentError::NotFrontier));
    assert_eq!(verify(b""), Err(DocumentError::NotFrontier));
}

#[test]
fn white_space_and_keepalives_are_ignored() {
    let body = String::from_utf8(example::zipped_document()).unwrap();
    let windows = body.replace('\n', "\r\n");
    assert_eq!(verify(windows.as_bytes()).unwrap().rows, 2);
    let kept = body.replace("<data>", "<data>\n   <keepalive />\n   <keepalive />");
    let summary = verify(kept.as_bytes()).unwrap();
    assert_eq!((summary.rows, summary.keepalives), (2, 2));
}

#[test]
fn errors_that_the_server_reports_are_in_the_summary() {
    let mut body = Vec::new();
    frame::begin(&mut body);
    frame::transaction(&mut body, 2);
    frame::payload(&mut body, "frontier_request", "1", "BLOBzip5");
    let error = frame::Quality {
        error: Some("SQL <error> & 'more'".into()),
        max_age: 300,
        ..Default::default()
    };
    frame::quality(&mut body, "srv", &error);
    frame::end_transaction(&mut body);
    frame::global_error(&mut body, "srv", "late");
    frame::end(&mut body);
    let summary = verify(&body).unwrap();
    let error = summary.error.unwrap();
    assert_eq!((error.payload, error.max_age), (1, Some(300)));
    assert_eq!(error.message, "srv SQL <error> & 'more'");

    let mut body = Vec::new();
    frame::begin(&mut body);
    frame::global_error(&mut body, "srv", "X-frontier-id header missing");
    frame::end(&mut body);
    let summary = verify(&body).unwrap();
    assert_eq!(summary.error.unwrap().message, "srv X-frontier-id header missing");
    assert_eq!(summary.payloads, 0);
}

#[test]
fn a_long_document_is_read_in_steps() {
    let mut encoder = payload::Encoder::default();
    encoder.column("a", "text");
    encoder.end_record();
    let mut rows = 0;
    while encoder.buffer.len() < 3 * STEP {
        encoder.value(Some(format!("row {rows}").as_bytes()));
        encoder.end_record();
        rows += 1;
    }
    let plain = encoder.buffer;
    // 4 MiB of text: three pauses while it is gathered, and three while it is decoded. Of the
    // compressed one, those while it is inflated.
    for (encoding, least) in [("BLOB", 6), ("BLOBzip5", 2)] {
        let text = String::from_utf8(example::document(encoding, &plain)).unwrap();
        let mut body = text
            .replace("records=\"2\"", &format!("records=\"{rows}\""))
            .into_bytes();
        let (summary, pauses) = in_steps(&body);
        assert_eq!(summary.payload_bytes, plain.len() as u64);
        assert_eq!(summary.rows, rows);
        assert!(pauses >= least, "{encoding}: {pauses}");
        let data = body.windows(6).position(|each| each == b"<data>").unwrap();
        body[data + 100..data + 102].copy_from_slice(b"==");
        assert_eq!(verify_long(&body), Err(DocumentError::Base64(1)), "{encoding}");
    }
}

/// The summary of a document, and the number of pauses while it was read.
fn in_steps(body: &[u8]) -> (Summary, u32) {
    let pauses = std::cell::Cell::new(0);
    let mut reader = Reader::new(1 << 30);
    let reading = pin!(reader.read_in_steps(body, |_, _| {}, async || pauses.set(pauses.get() + 1)));
    let Poll::Ready(Ok(summary)) = reading.poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("not read");
    };
    (summary, pauses.get())
}

fn verify_long(body: &[u8]) -> Result<Summary, DocumentError> {
    Reader::new(1 << 30).verify(body)
}

#[test]
fn padding_at_the_end_of_a_step_is_refused() {
    let plain = vec![7_u8; 2 * STEP];
    let body = example::document("BLOB", &plain);
    let data = body.windows(6).position(|each| each == b"<data>").unwrap() + 6;
    // The characters of the text are in lines of 76; the step ends within one of them.
    let mut seen = 0;
    let last = (data..body.len())
        .find(|&at| {
            seen += usize::from(!body[at].is_ascii_whitespace());
            seen == STEP
        })
        .unwrap();
    let mut body = body;
    body[last] = b'=';
    assert_eq!(verify_long(&body), Err(DocumentError::Base64(1)));
}

#[test]
fn inflating_stops_at_the_announced_size() {
    let bomb = vec![7_u8; 4 << 20];
    let body = String::from_utf8(example::document("BLOBzip9", &bomb)).unwrap();
    let lying = body.replace("full_size=\"4194304\"", "full_size=\"1000\"");
    let error = verify(lying.as_bytes()).unwrap_err();
    assert!(
        matches!(error, DocumentError::Size { announced: 1000, .. }),
        "{error}"
    );
    assert!(matches!(
        verify(body.as_bytes()),
        Err(DocumentError::TooBig { .. })
    ));
}
