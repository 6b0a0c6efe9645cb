//! Addresses of data connections in commands and replies.
//!
//! Of an address in a reply, only the port is used. A client connects to the host of its control
//! connection, as with EPSV (RFC 2428): otherwise a server could make thousands of testers connect
//! to any host. The exception is a striped transfer, which the user must request.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::error::FtpProtocolError;

/// The port in the reply 227 to PASV: the last two of six numbers, which are separated by commas.
/// RFC 1123 (4.1.2.6) states that there may be no parentheses.
pub fn passive_port(text: &str) -> Result<u16, FtpProtocolError> {
    text.split(|sign: char| !sign.is_ascii_digit() && sign != ',')
        .find_map(|word| Some(six_numbers(word)?.port()))
        .ok_or(FtpProtocolError::NoAddress)
}

/// The addresses in the reply 229 to SPAS, one in each line: those of the data servers of a striped
/// server (GFD.20).
pub fn striped_passive_addresses(text: &str) -> Result<Vec<SocketAddr>, FtpProtocolError> {
    let addresses: Vec<SocketAddr> = text.lines().filter_map(|line| six_numbers(line.trim())).collect();
    if addresses.is_empty() {
        return Err(FtpProtocolError::NoAddress);
    }
    Ok(addresses)
}

/// Address and port in six numbers, which are separated by commas.
fn six_numbers(word: &str) -> Option<SocketAddr> {
    let mut numbers = [0_u8; 6];
    let mut words = word.split(',');
    for number in &mut numbers {
        *number = words.next()?.parse().ok()?;
    }
    let [a, b, c, d, high, low] = numbers;
    let port = u16::from_be_bytes([high, low]);
    let address = SocketAddr::new(Ipv4Addr::new(a, b, c, d).into(), port);
    (words.next().is_none() && port > 0).then_some(address)
}

/// The port in the reply 229 to EPSV: `(|||PORT|)`, with any other sign in place of `|` (RFC 2428).
pub fn extended_passive_port(text: &str) -> Result<u16, FtpProtocolError> {
    let port = || {
        let (_, inside) = text.split_once('(')?;
        let mark = inside.chars().next().filter(char::is_ascii_graphic)?;
        let mut fields = inside.split(mark);
        let begin = [fields.next()?, fields.next()?, fields.next()?];
        let port: u16 = fields.next()?.parse().ok()?;
        (begin == ["", "", ""] && port > 0).then_some(port)
    };
    port().ok_or(FtpProtocolError::NoAddress)
}

/// The command that names the address at which the client listens once for each stripe of a striped
/// transfer: SPOR (GFD.20). None for IPv6, for which there is no form. A server uses as many
/// stripes as there are addresses, and more data servers than one only for several.
pub fn striped_port_command(address: SocketAddr, stripes: u32) -> Option<String> {
    let port = port_command(address);
    let numbers = port.strip_prefix("PORT")?;
    Some(format!("SPOR{}", numbers.repeat(stripes as usize)))
}

/// The command that names the address at which the client listens: PORT, or EPRT for IPv6.
pub fn port_command(address: SocketAddr) -> String {
    let port = address.port();
    match address.ip() {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            format!("PORT {a},{b},{c},{d},{},{}", port >> 8, port & 0xff)
        }
        IpAddr::V6(ip) => format!("EPRT |2|{ip}|{port}|"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_from_the_forms_of_real_servers() {
        for text in [
            "Entering Passive Mode (127,0,0,1,198,127)",
            "Entering Passive Mode (127,0,0,1,198,127).",
            "Entering Passive Mode. 127,0,0,1,198,127",
            "=127,0,0,1,198,127",
            "port 21 is 127,0,0,1,198,127",
        ] {
            assert_eq!(passive_port(text), Ok(198 * 256 + 127), "{text}");
        }
        assert_eq!(
            extended_passive_port("Entering Extended Passive Mode (|||50815|)"),
            Ok(50_815)
        );
        assert_eq!(extended_passive_port("(!!!21!)"), Ok(21));
    }

    #[test]
    fn other_texts_have_no_port() {
        for text in [
            "",
            "(1,2,3,4,5)",
            "(1,2,3,4,5,6,7)",
            "(1,2,3,4,256,6)",
            "(1,2,3,4,-5,6)",
            "(127,0,0,1,0,0)",
            "(1,2,3,4,,6)",
            "1,2,3,4,5,66666666666666666666666",
        ] {
            assert_eq!(passive_port(text), Err(FtpProtocolError::NoAddress), "{text}");
        }
        for text in [
            "",
            "(",
            "()",
            "(|||)",
            "(||||)",
            "(|||0|)",
            "(|||65536|)",
            "(|2|::1|21|)",
            "|||21|",
            "(\u{e9}",
        ] {
            assert_eq!(
                extended_passive_port(text),
                Err(FtpProtocolError::NoAddress),
                "{text}"
            );
        }
    }

    #[test]
    fn the_own_address_is_written_as_the_rfcs_show_it() {
        let command = |text: &str| port_command(text.parse().unwrap());
        // RFC 2428, section 2.
        assert_eq!(
            command("[1080::8:800:200c:417a]:5282"),
            "EPRT |2|1080::8:800:200c:417a|5282|"
        );
        assert_eq!(command("132.235.1.2:6275"), "PORT 132,235,1,2,24,131");
        let striped = |text: &str| striped_port_command(text.parse().unwrap(), 2);
        assert_eq!(
            striped("132.235.1.2:6275").unwrap(),
            "SPOR 132,235,1,2,24,131 132,235,1,2,24,131"
        );
        assert_eq!(striped("[1080::8:800:200c:417a]:5282"), None);
    }

    #[test]
    fn a_striped_server_names_the_addresses_of_its_data_servers() {
        let one = "Entering Striped Passive Mode.\n 127,0,0,1,198,127\nEnd";
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert_eq!(
            striped_passive_addresses(one),
            Ok(vec![address("127.0.0.1:50815")])
        );
        let two = "Entering Striped Passive Mode.\n 192,0,2,1,0,21\n 192,0,2,2,0,22\nEnd";
        assert_eq!(
            striped_passive_addresses(two),
            Ok(vec![address("192.0.2.1:21"), address("192.0.2.2:22")])
        );
        for text in [
            "",
            "End",
            "a\n 1,2,3,4,5\nEnd",
            "a\n 1,2,3,4,0,0\nEnd",
            "|2|::1|21|",
        ] {
            assert_eq!(
                striped_passive_addresses(text),
                Err(FtpProtocolError::NoAddress),
                "{text}"
            );
        }
    }
}
