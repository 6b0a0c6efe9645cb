//! Signed responses and the server's certificate.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use plimsoll_services::frontier::FrontierConfig;
use plimsoll_wire::frontier::request::{Encoding, Form, Ttl, build_url};
use rsa::pkcs1::EncodeRsaPrivateKey;
use rsa::pkcs8::{EncodePrivateKey, LineEnding};
use rsa::{Pkcs1v15Sign, RsaPrivateKey, RsaPublicKey};
use sha2::{Digest, Sha256};

use super::lab::{BIG, EXAMPLE, Lab, error_of, lab, quality, url, verified};
use crate::support::Response;

const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";

fn signing(form: impl FnOnce(&RsaPrivateKey) -> String) -> (Lab, RsaPublicKey) {
    let key = RsaPrivateKey::new(&mut rsa::rand_core::OsRng, 2048).unwrap();
    let pem = form(&key);
    let lab = lab(|config| with_files(config, &pem, CERTIFICATE));
    (lab, key.to_public_key())
}

fn with_files(config: &mut FrontierConfig, key: &str, certificate: &str) {
    let directory = config.files.clone().unwrap();
    for (name, text, path) in [
        ("key.pem", key, &mut config.key_file),
        ("cert.pem", certificate, &mut config.cert_file),
    ] {
        let file = directory.join(name);
        std::fs::write(&file, text).unwrap();
        *path = Some(file);
    }
}

fn pkcs8(key: &RsaPrivateKey) -> String {
    key.to_pkcs8_pem(LineEnding::LF).unwrap().to_string()
}

fn pkcs1(key: &RsaPrivateKey) -> String {
    key.to_pkcs1_pem(LineEnding::LF).unwrap().to_string()
}

/// The digest as the public client computes it: of the path from its last slash, and of the decoded
/// base64.
fn is_signed(response: &Response, path: &str, key: &RsaPublicKey) -> bool {
    let text = response.text();
    let data = text
        .split("<data>")
        .nth(1)
        .unwrap()
        .split("</data>")
        .next()
        .unwrap();
    let packed = STANDARD.decode(data.replace('\n', "")).unwrap();
    let digest = Sha256::new().chain_update(path).chain_update(packed).finalize();
    let signature = text.split("sig=\"").nth(1).unwrap().split('"').next().unwrap();
    let signature = STANDARD.decode(signature).unwrap();
    key.verify(Pkcs1v15Sign::new_unprefixed(), &digest, &signature)
        .is_ok()
}

#[test]
fn a_signature_replaces_the_digest_and_covers_path_and_payload() {
    for form in [pkcs8, pkcs1] {
        let (lab, key) = signing(form);
        for encoding in [Encoding::Blob, Encoding::BlobZipLevel(5)] {
            for sql in [EXAMPLE, BIG] {
                let target = build_url("/Lab", Form::Slash, &[sql], encoding, Ttl::Long, None) + "&sec=sig";
                let path = target.strip_prefix("/Lab/Frontier").unwrap();
                let response = lab.get(&target, "");
                verified(&response);
                assert!(
                    quality(&response).starts_with("error=\"0\" sig=\""),
                    "{}",
                    quality(&response)
                );
                assert!(is_signed(&response, path, &key));
                assert!(!is_signed(&response, &path.replace("BLOB", "BLOb"), &key));
            }
        }
        // The response to a request without `sec=sig` is not signed.
        assert!(quality(&lab.ask(EXAMPLE)).starts_with("error=\"0\" md5=\""));
    }
}

#[test]
fn an_escaped_path_is_signed_as_in_the_servlet() {
    let (lab, key) = signing(pkcs8);
    let target = url(EXAMPLE) + "&sec=sig";
    let path = target.strip_prefix("/Lab/Frontier").unwrap();
    let response = lab.get(&target.replace(':', "%3a"), "");
    assert!(is_signed(&response, path, &key));
}

#[test]
fn an_error_is_signed_too() {
    let (lab, key) = signing(pkcs8);
    let target = url("SELECT nosuch FROM main.t_string") + "&sec=sig";
    let response = lab.get(&target, "");
    assert!(error_of(&response).contains("nosuch"));
    assert!(is_signed(
        &response,
        target.strip_prefix("/Lab/Frontier").unwrap(),
        &key
    ));
}

#[test]
fn the_certificate_is_plain_text_with_a_length_and_the_age_of_errors() {
    let (lab, _) = signing(pkcs8);
    let response = lab.get("/Lab/Frontier/type=cert_request:1&encoding=pem", "");
    assert_eq!((response.status, response.text().as_str()), (200, CERTIFICATE));
    assert_eq!(
        response.field("content-length"),
        Some(CERTIFICATE.len().to_string().as_str())
    );
    assert!(response.field("content-type").unwrap().starts_with("text/plain"));
    assert_eq!(response.field("cache-control"), Some("max-age=0"));
}

#[test]
fn without_a_key_both_are_errors_of_the_document() {
    let lab = lab(|_| {});
    let certificate = lab.get("/Lab/Frontier/type=cert_request:1&encoding=pem", "");
    assert!(error_of(&certificate).contains("no CertFileName found"));
    let signed = lab.get(&(url(EXAMPLE) + "&sec=sig"), "");
    assert!(error_of(&signed).contains("No private key available for signing"));
}
