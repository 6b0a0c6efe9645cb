//! Parsers of the counters and limits of the network.

/// One line of `/proc/net/dev`: counts since the interface was created.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    /// Name of the interface.
    pub name: String,
    /// What arrived.
    pub received: Transfers,
    /// What was sent.
    pub sent: Transfers,
}

/// The counts of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transfers {
    /// Bytes.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
    /// Packets that were dropped.
    pub drops: u64,
}

/// Parses `/proc/net/dev`.
pub fn interfaces(text: &str) -> Vec<Interface> {
    text.lines()
        .filter_map(|line| {
            let (name, counters) = line.split_once(':')?;
            let numbers: Vec<u64> = counters
                .split_ascii_whitespace()
                .map_while(|word| word.parse().ok())
                .collect();
            let transfers = |first: usize| {
                Some(Transfers {
                    bytes: *numbers.get(first)?,
                    packets: *numbers.get(first + 1)?,
                    drops: *numbers.get(first + 3)?,
                })
            };
            Some(Interface {
                name: name.trim().to_owned(),
                received: transfers(0)?,
                sent: transfers(8)?,
            })
        })
        .collect()
}

/// Number of segments that TCP has retransmitted since boot, from `/proc/net/snmp`.
pub fn retransmits(text: &str) -> Option<u64> {
    Counters::of(text, "Tcp:")?.get("RetransSegs")
}

/// Events of TCP since the network namespace was created, from `/proc/net/netstat`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpEvents {
    /// Connections that were ready, or requests for one, that found an accept queue full.
    pub listen_overflows: Option<u64>,
    /// All requests for a connection that were dropped, overflows included.
    pub listen_drops: Option<u64>,
    /// Of these, requests that found the queue of incomplete connections full.
    pub request_queue_drops: Option<u64>,
    /// SYN and SYN+ACK segments that were repeated because no answer arrived.
    pub syn_retransmits: Option<u64>,
}

/// Parses `/proc/net/netstat`. None without its line of TCP.
pub fn tcp_events(text: &str) -> Option<TcpEvents> {
    let counters = Counters::of(text, "TcpExt:")?;
    Some(TcpEvents {
        listen_overflows: counters.get("ListenOverflows"),
        listen_drops: counters.get("ListenDrops"),
        request_queue_drops: counters.get("TCPReqQFullDrop"),
        syn_retransmits: counters.get("TCPSynRetrans"),
    })
}

/// A line of names and a line of values that begin with the same word.
struct Counters<'a> {
    names: &'a str,
    values: &'a str,
}

impl<'a> Counters<'a> {
    fn of(text: &'a str, head: &str) -> Option<Self> {
        let mut lines = text
            .lines()
            .filter(|line| line.split_ascii_whitespace().next() == Some(head));
        Some(Self {
            names: lines.next()?,
            values: lines.next()?,
        })
    }

    fn get(&self, name: &str) -> Option<u64> {
        let index = self
            .names
            .split_ascii_whitespace()
            .position(|word| word == name)?;
        self.values.split_ascii_whitespace().nth(index)?.parse().ok()
    }
}

/// Packets that all cores have dropped because their queue of received packets was full, from
/// `/proc/net/softnet_stat`: one line of hexadecimal numbers for each core.
pub fn softnet_drops(text: &str) -> Option<u64> {
    let mut drops = text.lines().map(|line| {
        let word = line.split_ascii_whitespace().nth(1)?;
        u64::from_str_radix(word, 16).ok()
    });
    let first = drops.next()??;
    Some(first + drops.flatten().sum::<u64>())
}

/// Numbers of TCP sockets: in use, and in the state TIME-WAIT. `v4`, `v6`: `/proc/net/sockstat` and
/// `/proc/net/sockstat6`, which is empty without IPv6.
pub fn sockets(v4: &str, v6: &str) -> Option<(u64, u64)> {
    let field = |text: &str, head: &str, name: &str| {
        let mut words = text
            .lines()
            .find_map(|line| line.strip_prefix(head))?
            .split_ascii_whitespace();
        words.find(|&word| word == name)?;
        words.next()?.parse::<u64>().ok()
    };
    let in_use = field(v4, "TCP:", "inuse")? + field(v6, "TCP6:", "inuse").unwrap_or(0);
    // This count contains the sockets of IPv6.
    Some((in_use, field(v4, "TCP:", "tw")?))
}

/// First and last port that the kernel assigns to outgoing connections, from
/// `/proc/sys/net/ipv4/ip_local_port_range`.
pub fn local_ports(text: &str) -> Option<(u16, u16)> {
    let mut ends = text.split_ascii_whitespace().map(str::parse::<u16>);
    match (ends.next(), ends.next()) {
        (Some(Ok(first)), Some(Ok(last))) if first <= last => Some((first, last)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_parsed_and_other_lines_skipped() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes    packets errs\n  eth0: 111 1 0 5 0 0 0 0 222 2 0 6 0 0 0 0\n    lo:7 1 0 0 0 0 0 0 8 2 0 0 0 0 0 0\n";
        let transfers = |bytes, packets, drops| Transfers {
            bytes,
            packets,
            drops,
        };
        let expected = [
            Interface {
                name: "eth0".into(),
                received: transfers(111, 1, 5),
                sent: transfers(222, 2, 6),
            },
            Interface {
                name: "lo".into(),
                received: transfers(7, 1, 0),
                sent: transfers(8, 2, 0),
            },
        ];
        assert_eq!(interfaces(text), expected);
    }

    #[test]
    fn counters_are_found_by_their_names() {
        let text =
            "Ip: Forwarding\nIp: 1\nTcp: RtoAlgorithm RetransSegs InErrs\nTcp: 1 42 0\nUdp: A\nUdp: 1\n";
        assert_eq!(retransmits(text), Some(42));
        assert_eq!(retransmits("Tcp: A\n"), None);
        let text = "TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPSynRetrans\nTcpExt: 0 34 35 17\nIpExt: A\nIpExt: 1\n";
        let expected = TcpEvents {
            listen_overflows: Some(34),
            listen_drops: Some(35),
            request_queue_drops: None,
            syn_retransmits: Some(17),
        };
        assert_eq!(tcp_events(text), Some(expected));
        assert_eq!(tcp_events("IpExt: A\nIpExt: 1\n"), None);
    }

    #[test]
    fn softnet_and_sockstat_are_parsed() {
        assert_eq!(
            softnet_drops("0000 0000000a 0000\n0000 00000010 0001\n"),
            Some(26)
        );
        assert_eq!(softnet_drops(""), None);
        let v4 = "sockets: used 19\nTCP: inuse 12 orphan 1 tw 300 alloc 14 mem 166\nUDP: inuse 3 mem 0\n";
        assert_eq!(sockets(v4, "TCP6: inuse 5\n"), Some((17, 300)));
        assert_eq!(sockets(v4, ""), Some((12, 300)));
        assert_eq!(sockets("UDP: inuse 3\n", ""), None);
    }

    #[test]
    fn a_range_of_ports_has_two_ends() {
        assert_eq!(local_ports("32768\t60999\n"), Some((32_768, 60_999)));
        for wrong in ["", "9 1", "1", "1 99999"] {
            assert_eq!(local_ports(wrong), None, "{wrong}");
        }
    }
}
