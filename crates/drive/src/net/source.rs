//! Local addresses from which connections are made.
//!
//! A connection is identified by its two addresses and its two ports, so that one local address has
//! at most as many connections to a service as there are local ports. Connections from several
//! addresses multiply this number.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt::IpBindAddressNoPort};
use socket2::{Domain, Protocol, Socket, Type};

use super::Host;
use super::error::SourceError;

/// Selects the local address of the next connection to one host.
///
/// Each host has its own turns. With common turns, testers that connect to two hosts alternately
/// would use half of the addresses for each.
#[derive(Debug)]
pub(super) struct SourceTurns {
    ipv4: Turn,
    ipv6: Turn,
}

#[derive(Debug)]
struct Turn {
    addresses: Box<[IpAddr]>,
    /// Number of connections so far, modulo the size of the type.
    count: AtomicUsize,
}

impl SourceTurns {
    pub(super) fn new(sources: &[IpAddr]) -> Self {
        let turn = |ipv4| Turn {
            addresses: sources
                .iter()
                .copied()
                .filter(|source| source.is_ipv4() == ipv4)
                .collect(),
            count: AtomicUsize::new(0),
        };
        Self {
            ipv4: turn(true),
            ipv6: turn(false),
        }
    }

    /// The local address of the next connection to `target`; none if no source has its family.
    pub(super) fn next(&self, target: SocketAddr) -> Option<IpAddr> {
        let turn = if target.is_ipv4() { &self.ipv4 } else { &self.ipv6 };
        let count = turn.count.fetch_add(1, Ordering::Relaxed);
        let index = count.checked_rem(turn.addresses.len())?;
        Some(turn.addresses[index])
    }
}

/// Binds a socket to a local address without a port. The kernel selects the port when the socket
/// connects. It only has to differ from those of connections to the same destination. A port that
/// is selected by bind(2) would be taken for all destinations.
pub(super) fn bind(socket: &Socket, source: IpAddr) -> io::Result<()> {
    match setsockopt(socket, IpBindAddressNoPort, &true) {
        // Before Linux 4.2 the port is selected here: fewer connections, otherwise the same.
        Ok(()) | Err(Errno::ENOPROTOOPT) => {}
        Err(error) => return Err(error.into()),
    }
    socket.bind(&SocketAddr::new(source, 0).into())
}

/// Checks that this host has every address.
///
/// # Errors
/// The first address that it does not have.
pub fn check_local(sources: &[IpAddr]) -> Result<(), SourceError> {
    for &source in sources {
        let result = socket(Domain::for_address(SocketAddr::new(source, 0)), Type::STREAM)
            .and_then(|socket| bind(&socket, source));
        match result {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::EADDRNOTAVAIL) => {
                return Err(SourceError::NotLocal(source));
            }
            Err(error) => {
                return Err(SourceError::Bind {
                    source_address: source,
                    source: error,
                });
            }
        }
    }
    Ok(())
}

/// Checks that every address has the family of a host, so that connections can come from it.
///
/// # Errors
/// The first address from which no connection would come.
pub fn check_families<'a>(
    sources: &[IpAddr],
    hosts: &(impl Iterator<Item = &'a Host> + Clone),
) -> Result<(), SourceError> {
    let unused = |source: &&IpAddr| !hosts.clone().any(|host| host.has_family_of(**source));
    match sources.iter().find(unused) {
        Some(&source) => Err(SourceError::Unused(source)),
        None => Ok(()),
    }
}

/// The addresses of a host that have the family of a source, at least one.
pub(super) fn reachable(
    addresses: &[SocketAddr],
    sources: &[IpAddr],
) -> Result<Vec<SocketAddr>, SourceError> {
    let mut usable = Vec::new();
    for &address in addresses {
        let of_family = || {
            sources
                .iter()
                .filter(|source| source.is_ipv4() == address.is_ipv4())
        };
        for &source in of_family() {
            check_pair(source, address)?;
        }
        if of_family().next().is_some() {
            usable.push(address);
        }
    }
    match addresses.first() {
        Some(&address) if usable.is_empty() => Err(SourceError::Family(address.ip())),
        _ => Ok(usable),
    }
}

/// Checks whether the kernel accepts a connection from `source` to `target`: it refuses an address
/// of the loopback interface for another host. A UDP socket is connected, which sends nothing. A
/// missing route is not an error: it may exist when the load begins, and does not depend on the
/// source.
fn check_pair(source: IpAddr, target: SocketAddr) -> Result<(), SourceError> {
    let result = socket(Domain::for_address(target), Type::DGRAM).and_then(|socket| {
        socket.bind(&SocketAddr::new(source, 0).into())?;
        socket.connect(&target.into())
    });
    match result {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Err(SourceError::Pair {
            source_address: source,
            target: target.ip(),
        }),
        _ => Ok(()),
    }
}

fn socket(domain: Domain, kind: Type) -> io::Result<Socket> {
    let protocol = if kind == Type::STREAM {
        Protocol::TCP
    } else {
        Protocol::UDP
    };
    Socket::new(domain, kind.cloexec(), Some(protocol))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn connections_use_the_addresses_of_the_targets_family_in_turn() {
        let turns = SourceTurns::new(&addresses(&["127.0.0.2", "::1", "127.0.0.3"]));
        let next = |target: &str| turns.next(target.parse().unwrap()).unwrap().to_string();
        assert_eq!(next("127.0.0.1:80"), "127.0.0.2");
        assert_eq!(next("[::1]:80"), "::1");
        assert_eq!(next("127.0.0.1:80"), "127.0.0.3");
        assert_eq!(next("127.0.0.1:80"), "127.0.0.2");
        assert_eq!(next("[::1]:80"), "::1");
        let turns = SourceTurns::new(&addresses(&["127.0.0.2"]));
        assert_eq!(turns.next("[::1]:80".parse().unwrap()), None);
    }

    #[test]
    fn an_address_that_the_host_does_not_have_is_refused() {
        check_local(&addresses(&["127.0.0.2", "127.255.0.9"])).unwrap();
        let error = check_local(&addresses(&["127.0.0.2", "192.0.2.7"])).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("this host does not have the address 192.0.2.7"),
            "{error}"
        );
    }

    #[test]
    fn sources_and_hosts_without_a_common_family_are_refused() {
        let mut host = Host::resolve("127.0.0.1", 80).unwrap();
        let error = host.connect_from(&addresses(&["::1"])).unwrap_err();
        assert!(
            error.to_string().contains("127.0.0.1 is an IPv4 address"),
            "{error}"
        );
        host.connect_from(&addresses(&["127.0.0.2", "::1"])).unwrap();
        let hosts = [host];
        let error = check_families(&addresses(&["127.0.0.2", "::1"]), &hosts.iter()).unwrap_err();
        assert!(error.to_string().contains("::1 is an IPv6 address"), "{error}");
        check_families(&addresses(&["127.0.0.2"]), &hosts.iter()).unwrap();
    }
}
