//! Fields of a frame as a packet socket with `PACKET_VNET_HDR` returns it: 10 bytes that describe
//! pending offload work (`struct virtio_net_hdr`, VIRTIO 1.2 section 5.1.6), the Ethernet header,
//! the IPv4 header.

use crate::link::Wire;

/// A frame with its offload header.
pub type Frame = Box<[u8]>;

/// Length of the offload header, in bytes. The Ethernet header follows.
pub const OFFLOAD: usize = 10;
/// Length of an Ethernet header without a VLAN tag, in bytes.
const ETHERNET: usize = 14;
const IP: usize = OFFLOAD + ETHERNET;
const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const TCP: u8 = 6;
const UDP_HEADER: usize = 8;

/// Destination address of an IPv4 frame as a number in host byte order. None for other protocols
/// and for a frame that is too short.
pub fn destination(frame: &[u8]) -> Option<u32> {
    if frame.get(OFFLOAD + 12..IP)? != ETHERTYPE_IPV4 {
        return None;
    }
    let address: [u8; 4] = frame.get(IP + 16..IP + 20)?.try_into().ok()?;
    Some(u32::from_be_bytes(address))
}

/// Sets the destination hardware address of a frame.
pub fn readdress(frame: &mut [u8], hardware: [u8; 6]) {
    if let Some(destination) = frame.get_mut(OFFLOAD..OFFLOAD + 6) {
        destination.copy_from_slice(&hardware);
    }
}

/// Packets and bytes of a frame on the wire. Segmentation offload cuts a large frame into packets
/// of `gso_size` payload bytes, each with a copy of the headers.
pub fn wire(frame: &[u8]) -> Wire {
    let length = frame.len().saturating_sub(OFFLOAD);
    let size = usize::from(u16::from_le_bytes([frame[4], frame[5]]));
    let whole = Wire {
        packets: 1,
        bytes: u32::try_from(length).unwrap_or(u32::MAX),
    };
    if frame[1] == 0 || size == 0 {
        return whole;
    }
    let Some(headers) = headers(frame) else {
        return whole;
    };
    let payload = length.saturating_sub(headers);
    let packets = payload.div_ceil(size).max(1);
    Wire {
        packets: u32::try_from(packets).unwrap_or(u32::MAX),
        bytes: u32::try_from(length + (packets - 1) * headers).unwrap_or(u32::MAX),
    }
}

/// Length in bytes of the Ethernet, IP, and TCP or UDP headers. It is not the field `hdr_len`,
/// which is only a hint for memory allocation.
fn headers(frame: &[u8]) -> Option<usize> {
    let ip = usize::from(frame.get(IP)? & 0x0f) * 4;
    let transport = if *frame.get(IP + 9)? == TCP {
        usize::from(frame.get(IP + ip + 12)? >> 4) * 4
    } else {
        UDP_HEADER
    };
    Some(ETHERNET + ip + transport)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 frame with `payload` bytes after a TCP header with options (32 bytes) or a UDP
    /// header.
    fn build_frame(protocol: u8, payload: usize, gso: u16) -> Vec<u8> {
        let transport = if protocol == TCP { 32 } else { UDP_HEADER };
        let mut frame = vec![0; IP + 20 + transport + payload];
        if gso > 0 {
            frame[1] = if protocol == TCP { 1 } else { 5 };
            frame[4..6].copy_from_slice(&gso.to_le_bytes());
        }
        frame[OFFLOAD + 12..IP].copy_from_slice(&ETHERTYPE_IPV4);
        frame[IP] = 0x45;
        frame[IP + 9] = protocol;
        frame[IP + 16..IP + 20].copy_from_slice(&[10, 77, 2, 3]);
        if protocol == TCP {
            frame[IP + 20 + 12] = 8 << 4;
        }
        frame
    }

    #[test]
    fn only_an_ipv4_frame_has_a_destination() {
        assert_eq!(
            destination(&build_frame(TCP, 0, 0)),
            Some(u32::from_be_bytes([10, 77, 2, 3]))
        );
        let mut other = build_frame(TCP, 0, 0);
        other[OFFLOAD + 12] = 0x86; // IPv6
        assert_eq!(destination(&other), None);
    }

    #[test]
    fn a_truncated_frame_of_any_length_does_not_panic() {
        let frame = build_frame(TCP, 3_000, 1448);
        for length in OFFLOAD..frame.len() {
            let mut cut = frame[..length].to_vec();
            destination(&cut);
            assert!(wire(&cut).packets >= 1);
            readdress(&mut cut, [2, 0, 0, 0, 0, 1]);
        }
    }

    #[test]
    fn a_large_frame_counts_as_the_packets_that_offload_cuts_it_into() {
        assert_eq!(
            wire(&build_frame(TCP, 100, 0)),
            Wire {
                packets: 1,
                bytes: 14 + 20 + 32 + 100
            }
        );
        // 44 full segments and one byte: 45 packets.
        let bytes = 44 * 1448 + 1 + 45 * 66;
        assert_eq!(
            wire(&build_frame(TCP, 44 * 1448 + 1, 1448)),
            Wire { packets: 45, bytes }
        );
        assert_eq!(
            wire(&build_frame(17, 2_000, 1_000)),
            Wire {
                packets: 2,
                bytes: 2_000 + 2 * 42
            }
        );
    }
}
