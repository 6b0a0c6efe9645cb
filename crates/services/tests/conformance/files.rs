//! `frontier_file`: files in one directory and its subdirectories.

use std::io::Read;
use std::os::unix::fs::symlink;

use flate2::read::ZlibDecoder;

use super::lab::{Lab, error_of, lab, verified};
use crate::support::Response;

fn ask(lab: &Lab, path: &str) -> Response {
    lab.get(
        &format!("/Lab/Frontier/type=frontier_file:1:DEFAULT&encoding=BLOBzip&p1={path}"),
        "",
    )
}

/// The inflated payload. Rejected: the reader of the crate `wire`, which would read the only record
/// as the names of columns.
fn content(response: &Response) -> Vec<u8> {
    let text = response.text();
    let (_, data) = text.split_once("<data>").unwrap();
    let (data, _) = data.split_once("</data>").unwrap();
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut packed, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for digit in data.bytes().filter_map(|b| alphabet.iter().position(|a| *a == b)) {
        bits = bits << 6 | digit as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            packed.push((bits >> count) as u8);
        }
    }
    let mut payload = Vec::new();
    ZlibDecoder::new(&packed[..]).read_to_end(&mut payload).unwrap();
    payload
}

fn with_files(change: impl FnOnce(&std::path::Path)) -> Lab {
    let lab = lab(|config| config.ages.short = 60);
    change(&lab.scratch.0);
    lab
}

#[test]
fn a_file_is_one_record_with_one_field() {
    let bytes: Vec<u8> = (0..200_000_u32).map(|i| (i.wrapping_mul(i) >> 3) as u8).collect();
    let lab = with_files(|path| {
        std::fs::create_dir(path.join("files/a")).unwrap();
        std::fs::write(path.join("files/a/b.dat"), &bytes).unwrap();
        std::fs::write(path.join("files/empty"), b"").unwrap();
    });
    let response = ask(&lab, "a/b.dat");
    assert!(
        response
            .text()
            .contains("<payload type=\"frontier_file\" version=\"1\"")
    );
    assert!(response.text().contains("records=\"1\" full_size=\"200006\"/>"));
    let mut expected = vec![6, 0, 3, 13, 64];
    expected.extend(&bytes);
    expected.push(7);
    assert!(content(&response) == expected);
    assert_eq!(response.field("cache-control"), Some("max-age=604800"));
    // The path may be percent-encoded and begin with a slash, as in URLs.
    assert!(content(&ask(&lab, "/a%2Fb.dat")) == expected);
    assert!(ask(&lab, "empty").text().contains("records=\"1\""));
}

#[test]
fn last_modified_is_the_time_of_the_file() {
    let lab = with_files(|path| std::fs::write(path.join("files/f"), b"x").unwrap());
    let time = ask(&lab, "f").field("last-modified").unwrap().to_owned();
    let target = "/Lab/Frontier/type=frontier_file:1&encoding=BLOB&p1=f";
    let same = lab.get(target, &format!("If-Modified-Since: {time}\r\n"));
    assert_eq!((same.status, same.body.len()), (304, 0));
    let other = lab.get(target, "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
    assert_eq!(other.status, 200);
}

#[test]
fn no_file_outside_the_directory_is_read() {
    let lab = with_files(|path| {
        std::fs::write(path.join("secret"), b"secret").unwrap();
        std::fs::create_dir_all(path.join("files/dir")).unwrap();
        std::fs::write(path.join("files/inside"), b"inside").unwrap();
        symlink(path.join("secret"), path.join("files/link")).unwrap();
        symlink("/etc", path.join("files/etc")).unwrap();
        symlink(path.join("files/inside"), path.join("files/dir/good")).unwrap();
        symlink("loop", path.join("files/loop")).unwrap();
    });
    for (path, expected) in [
        ("../secret", "'..' not allowed in file path ../secret"),
        ("dir/../../secret", "not allowed"),
        ("%2e%2e/secret", "not allowed"),
        ("link", "Cannot read file link"),
        ("etc/passwd", "Cannot read file"),
        ("/etc/passwd", "Cannot read file"),
        ("dir", "Cannot read file dir"),
        ("loop", "Cannot read file"),
        ("absent", "Cannot read file absent"),
        ("a%00b", "Cannot read file"),
    ] {
        let response = ask(&lab, path);
        let message = error_of(&response);
        assert!(
            message.starts_with("plimsoll Exception: ") && message.contains(expected),
            "{path}: {message}"
        );
        assert!(response.text().contains("<global_error") && !response.text().contains("<transaction"));
        assert_eq!(response.field("cache-control"), Some("max-age=60"));
    }
    assert!(
        content(&ask(&lab, "dir/good"))
            .windows(6)
            .any(|found| found == b"inside")
    );
}

#[test]
fn without_a_directory_there_are_no_files() {
    let lab = lab(|config| config.files = None);
    assert_eq!(
        error_of(&ask(&lab, "f")),
        "plimsoll Exception: FileBaseDirectory not defined"
    );
}

#[test]
fn a_request_may_contain_a_query_and_a_file() {
    let lab = with_files(|path| std::fs::write(path.join("files/f"), b"x").unwrap());
    let query = super::lab::url(super::lab::EXAMPLE);
    let response = lab.get(&format!("{query}&type=frontier_file:1&encoding=XML&p1=f"), "");
    assert!(error_of(&response).contains("Unsupported encoder: XML"));
    assert_eq!(verified(&response).payloads, 2);
    assert_eq!(
        response.field("last-modified"),
        Some("Thu, 01 Jan 1970 00:00:00 GMT")
    );
}
