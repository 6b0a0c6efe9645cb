//! Why a host or the settings of TLS cannot be used.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

use plimsoll_grid_proxy::DelegateError;
use rustls::client::VerifierBuilderError;
use rustls::pki_types::{InvalidDnsNameError, pem};

/// Why a host cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the host name \"{name}\" cannot be looked up ({source}): correct it, or use the IP address")]
pub struct HostError {
    /// Name of the host.
    pub name: String,
    /// Why the lookup failed.
    pub source: LookupError,
}

/// Why a name has no addresses.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// The text cannot be the name of a host.
    #[error("expected a host name: not empty, without spaces, and not beginning with -")]
    Invalid,
    /// The program `getent` cannot be run, or does not respond.
    #[error("getent: {0}")]
    Getent(#[source] io::Error),
    /// The host has no `getent`, and /etc/hosts cannot be read.
    #[error("/etc/hosts: {0}")]
    HostsFile(#[source] io::Error),
    /// The name is unknown.
    #[error("no such name")]
    Unknown,
}

/// Why connections cannot come from a local address. The text begins with the key.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The host does not have the address.
    #[error(
        "source_addresses: this host does not have the address {0}: correct the list, or add the address \
         (ip address add {0}/{length} dev INTERFACE)",
        length = if .0.is_ipv4() { 32 } else { 128 }
    )]
    NotLocal(IpAddr),
    /// The kernel refuses the address for another reason.
    #[error("source_addresses: cannot bind to {source_address} ({source}): remove it from the list")]
    Bind {
        /// The address.
        source_address: IpAddr,
        /// Error of the operating system.
        source: io::Error,
    },
    /// No source has the family of the host's address.
    #[error(
        "source_addresses: {0} is an {family} address, and the list contains none: add {family} addresses",
        family = family(.0)
    )]
    Family(IpAddr),
    /// No address of a host has the family of the source.
    #[error(
        "source_addresses: {0} is an {family} address, and no connection goes to an {family} address: \
         remove it from the list",
        family = family(.0)
    )]
    Unused(IpAddr),
    /// The kernel refuses connections from the source to the target.
    #[error(
        "source_addresses: this host cannot connect from {source_address} to {target}: use addresses of the \
         interface that leads to {target}"
    )]
    Pair {
        /// The local address.
        source_address: IpAddr,
        /// Address of the host.
        target: IpAddr,
    },
}

fn family(address: &IpAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}

/// Why the settings of TLS cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The library refuses the protocol versions.
    #[error("tls: {0}")]
    Versions(#[source] rustls::Error),
    /// The library refuses the CA certificates.
    #[error("tls: {0}")]
    Verifier(#[source] VerifierBuilderError),
    /// A file of certificates cannot be read.
    #[error("tls: cannot read certificates from {file}: {source}")]
    Certificates {
        /// Path of the file.
        file: PathBuf,
        /// Error of the operating system or of the parser.
        source: pem::Error,
    },
    /// The directory of CA certificates cannot be read.
    #[error("tls.ca_dir: cannot read {directory}: {source}")]
    Directory {
        /// Path of the directory.
        directory: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The settings contain no CA certificates, and the system has no file of them.
    #[error("tls: this host has no file of CA certificates: set ca_file or ca_dir")]
    NoSystemAuthorities,
    /// The files of the settings contain no CA certificate. Contains `ca_file` and `ca_dir`, those
    /// that are set.
    #[error(
        "tls: no CA certificate in {sources}: ca_file is a PEM file, ca_dir a directory with PEM files",
        sources = joined(.0)
    )]
    NoAuthorities(Vec<PathBuf>),
    /// The file of the client's certificate contains none.
    #[error("tls.cert: {0} contains no certificate: use a PEM file with the certificate and its chain")]
    NoCertificate(PathBuf),
    /// The client's key cannot be read.
    #[error("tls.key: cannot read a private key from {file} ({source}): use a PEM file without password")]
    Key {
        /// Path of the file.
        file: PathBuf,
        /// Error of the operating system or of the parser.
        source: pem::Error,
    },
    /// Proxies are to be made, and there is no certificate that could issue them.
    #[error("tls.proxy: a proxy needs the certificate that issues it: set cert and key")]
    NoIssuer,
    /// A proxy cannot be made.
    #[error("tls.proxy: {0}")]
    Proxy(#[source] DelegateError),
    /// The library refuses the client's certificate with this key.
    #[error("tls.cert and tls.key: {0}")]
    ClientCertificate(#[source] rustls::Error),
}

fn joined(paths: &[PathBuf]) -> String {
    let texts: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    texts.join(" or ")
}

/// Why a host cannot be the name in a certificate.
#[derive(Debug, thiserror::Error)]
#[error("expected a host name or IP address that a certificate can contain, got \"{host}\"")]
pub struct ServerNameError {
    /// The host.
    pub host: String,
    /// Error of the library.
    pub source: InvalidDnsNameError,
}
