//! Data connections that a transfer leaves open for the next one (`data: kept`). Only extended
//! block mode permits this: the end of a file is a block there, not the end of the connection.

use crate::net::Stream;
use crate::net::listener::Listener;

/// Data connections of a control connection. The server uses them for the next transfer in the same
/// direction, if no address is negotiated before it.
pub(super) enum Channels {
    /// The server sends on these connections, and may open further ones.
    Receiving {
        listener: Listener,
        streams: Vec<Stream>,
        shape: Shape,
    },
    /// The tester sends on these connections.
    Sending { streams: Vec<Stream>, shape: Shape },
}

/// Number of connections to each data server or of each stripe, and number of these of a striped
/// transfer (see [`super::settings::Operation`]).
pub(super) type Shape = (u32, Option<u32>);

impl Channels {
    /// Connections on which a file of this shape is received; none if these have another one, or if
    /// the server has closed one. They are closed then.
    pub(super) fn receiving(channels: Option<Self>, shape: Shape) -> Option<(Listener, Vec<Stream>)> {
        match channels? {
            Self::Receiving {
                listener,
                streams,
                shape: found,
            } if found == shape && is_open(&streams) => Some((listener, streams)),
            _ => None,
        }
    }

    /// Connections of this shape to which a file is sent; none as for [`Self::receiving`].
    pub(super) fn sending(channels: Option<Self>, shape: Shape) -> Option<Vec<Stream>> {
        match channels? {
            Self::Sending {
                streams,
                shape: found,
            } if found == shape && is_open(&streams) => Some(streams),
            _ => None,
        }
    }
}

fn is_open(streams: &[Stream]) -> bool {
    !streams.iter().any(Stream::is_closed)
}
