//! Where to listen.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use tokio::net::TcpListener;

/// A listener could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The address means nothing.
    #[error(
        "--{flag}={address} is not an address: write HOST:PORT, :PORT for all interfaces, or 0 for none"
    )]
    Malformed {
        /// The flag it came from.
        flag: &'static str,
        /// What was given.
        address: String,
    },
    /// The address is taken, or not ours.
    #[error("cannot listen on --{flag}={address}: {source}; choose another address, or 0 for none")]
    Unavailable {
        /// The flag it came from.
        flag: &'static str,
        /// What was given.
        address: String,
        /// What the system says.
        source: io::Error,
    },
}

/// A listener that is open.
#[derive(Debug)]
pub struct Bound {
    /// The socket.
    pub listener: TcpListener,
    /// Where it really listens, also when the port was left to the system.
    pub address: SocketAddr,
}

/// Opens the listener that a flag asks for; `0` and nothing ask for none.
pub async fn bind(flag: &'static str, address: &str) -> Result<Option<Bound>, BindError> {
    if address.is_empty() || address == "0" {
        return Ok(None);
    }
    let candidates = candidates(address).await;
    if candidates.is_empty() {
        let address = address.to_owned();
        return Err(BindError::Malformed { flag, address });
    }
    let open = async {
        let listener = TcpListener::bind(&*candidates).await?;
        let address = listener.local_addr()?;
        Ok(Some(Bound { listener, address }))
    };
    open.await.map_err(|source| BindError::Unavailable {
        flag,
        address: address.to_owned(),
        source,
    })
}

/// What the address stands for, in order of preference.
async fn candidates(address: &str) -> Vec<SocketAddr> {
    if let Some(port) = address.strip_prefix(':') {
        // One socket for both families where the system has both.
        let everywhere: [IpAddr; 2] = [Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()];
        let port = port.parse().ok();
        return port
            .map(|port| everywhere.map(|ip| SocketAddr::new(ip, port)).to_vec())
            .unwrap_or_default();
    }
    let found = tokio::net::lookup_host(address).await;
    found.map(Iterator::collect).unwrap_or_default()
}
