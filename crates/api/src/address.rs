//! Which network addresses a sink may be reached at.
//!
//! Whoever may write a sink must not be able to make the operator connect to loopback, to the
//! metadata service of a cloud, or to private networks it was not opened to. One table serves both
//! checks: admission judges the literal hosts of a manifest, the dialler judges every resolved
//! address before it opens a socket.

#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What is reachable beyond the public internet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressPolicy {
    /// Allow private networks (RFC 1918, IPv6 unique local) as a whole.
    pub allow_private: bool,
    /// Networks that are allowed although they are private or loopback. Platform addresses
    /// (metadata services) stay forbidden.
    pub allowed_networks: Vec<Network>,
    /// Hosts that may be reached wherever they are, on private networks and loopback too. A name
    /// stands for itself, `.example.com` or `*.example.com` for every name below it. Metadata names
    /// and platform addresses stay forbidden.
    pub allowed_hosts: Vec<String>,
    /// Allow the platform's own services. Only for finding out who this process is to its cloud;
    /// never for sinks, which anybody may describe.
    pub platform: bool,
}

/// An address range such as `10.96.0.0/12`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

/// The text is not an address range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a network; write it like 10.96.0.0/12 or fd00::/8")]
pub struct NetworkError(String);

impl std::str::FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (address, prefix) = match text.split_once('/') {
                Some((address, prefix)) => (address, Some(prefix)),
                None => (text, None),
            };
            let address: IpAddr = address.trim().parse().ok()?;
            let width = if address.is_ipv4() { 32 } else { 128 };
            let prefix = match prefix {
                Some(prefix) => prefix.trim().parse().ok()?,
                None => width,
            };
            (prefix <= width).then_some(Network { address, prefix })
        };
        parse().ok_or_else(|| NetworkError(text.to_owned()))
    }
}

impl Network {
    const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Self {
        Self {
            address: IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
            prefix,
        }
    }

    const fn v6(s: [u16; 8], prefix: u8) -> Self {
        let address = Ipv6Addr::new(s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]);
        Self {
            address: IpAddr::V6(address),
            prefix,
        }
    }

    /// Whether the address lies in this range.
    pub fn contains(&self, address: IpAddr) -> bool {
        let same_bits = |own: u128, other: u128, width: u32| {
            let host_bits = width - u32::from(self.prefix);
            host_bits >= width || own >> host_bits == other >> host_bits
        };
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                same_bits(u32::from(own).into(), u32::from(other).into(), 32)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => same_bits(own.into(), other.into(), 128),
            _ => false,
        }
    }
}

/// Services of the platform that hand out credentials; never reachable, whatever is allowed.
const PLATFORM: [Network; 9] = [
    // Metadata of most clouds, and credentials of pods and tasks.
    Network::v4(169, 254, 0, 0, 16),
    // Azure's agent.
    Network::v4(168, 63, 129, 16, 32),
    // Alibaba Cloud.
    Network::v4(100, 100, 100, 200, 32),
    // Oracle Cloud, its first generation.
    Network::v4(192, 0, 0, 192, 32),
    // AWS: metadata (254), credentials of pods (23), name servers, keys.
    Network::v6([0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0], 64),
    // Google Cloud.
    Network::v6([0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x254], 128),
    // Scaleway.
    Network::v6([0xfd00, 0x0042, 0, 0, 0, 0, 0, 0x42], 128),
    // Akamai (Linode).
    Network::v6([0xfd00, 0xa9fe, 0xa9fe, 0, 0, 0, 0, 0], 64),
    // OpenStack's metadata is at fe80::a9fe:a9fe.
    Network::v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10),
];

/// Private networks, opened by `allow_private`.
const PRIVATE: [Network; 4] = [
    Network::v4(10, 0, 0, 0, 8),
    Network::v4(172, 16, 0, 0, 12),
    Network::v4(192, 168, 0, 0, 16),
    Network::v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7),
];

/// Everything else that is not a host on the internet (IANA special-purpose registries). Global
/// IPv6 addresses are all in `2000::/3`, so everything around it is here as a whole.
const SPECIAL: [Network; 17] = [
    Network::v4(0, 0, 0, 0, 8),
    Network::v4(100, 64, 0, 0, 10),
    Network::v4(127, 0, 0, 0, 8),
    Network::v4(192, 0, 0, 0, 24),
    Network::v4(192, 0, 2, 0, 24),
    Network::v4(192, 88, 99, 0, 24),
    Network::v4(198, 18, 0, 0, 15),
    Network::v4(198, 51, 100, 0, 24),
    Network::v4(203, 0, 113, 0, 24),
    Network::v4(224, 0, 0, 0, 4),
    Network::v4(240, 0, 0, 0, 4),
    Network::v6([0, 0, 0, 0, 0, 0, 0, 0], 3),
    Network::v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23),
    Network::v6([0x2001, 0x0db8, 0, 0, 0, 0, 0, 0], 32),
    Network::v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20),
    Network::v6([0x4000, 0, 0, 0, 0, 0, 0, 0], 2),
    Network::v6([0x8000, 0, 0, 0, 0, 0, 0, 0], 1),
];

const METADATA_HOSTS: [&str; 8] = [
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "metadata.azure.internal",
    "metadata.tencentyun.com",
    "rancher-metadata",
    "instance-data",
    "instance-data.ec2.internal",
];

impl AddressPolicy {
    /// Whether a socket may be opened to the address.
    pub fn allows_address(&self, address: IpAddr) -> bool {
        let address = judged(address);
        if is_platform(address) {
            return self.platform;
        }
        if self
            .allowed_networks
            .iter()
            .any(|network| network.contains(address))
        {
            return true;
        }
        if PRIVATE.iter().any(|network| network.contains(address)) {
            return self.allow_private;
        }
        !SPECIAL.iter().any(|network| network.contains(address))
    }

    /// Whether a host as written in a manifest is acceptable. Names are judged by the list of
    /// forbidden names only; what they resolve to is judged when dialling.
    pub fn allows_host(&self, host: &str) -> bool {
        let host = normalize(host);
        if host.is_empty() {
            return true;
        }
        if METADATA_HOSTS.contains(&host.as_str()) {
            return self.platform;
        }
        if let Some(address) = literal(&host) {
            return self.allows_address(address);
        }
        !is_local_name(&host) || self.names(&host)
    }

    /// Whether a socket may be opened to an address that a host resolved to.
    pub fn allows_resolved(&self, host: &str, address: IpAddr) -> bool {
        if is_platform(judged(address)) {
            return self.platform;
        }
        self.names(&normalize(host)) || self.allows_address(address)
    }

    /// Whether the list of allowed hosts names this one.
    fn names(&self, host: &str) -> bool {
        self.allowed_hosts.iter().any(|allowed| {
            let allowed = allowed.trim();
            let below = allowed.strip_prefix('*').unwrap_or(allowed);
            if below.starts_with('.') {
                host.strip_suffix(&normalize(below))
                    .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
            } else {
                normalize(allowed) == host
            }
        })
    }
}

fn is_platform(address: IpAddr) -> bool {
    let listed = |address| PLATFORM.iter().any(|network| network.contains(address));
    listed(address) || translated(address).is_some_and(|address| listed(address.into()))
}

/// The IPv4 address inside an IPv6 one whose range is refused by itself. An administrator may open
/// the range, and a router there may translate: SIIT, local NAT64, ISATAP.
fn translated(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(v6) = address else {
        return None;
    };
    match v6.segments() {
        [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x0064, 0xff9b, 1, .., high, low]
        | [.., 0 | 0x0200, 0x5efe, high, low] => {
            Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)))
        }
        _ => None,
    }
}

/// A host without the decoration it may carry: blanks, letter case, dots around it, brackets and
/// the zone of an IPv6 address.
pub fn normalize(host: &str) -> String {
    let host = host.trim().to_ascii_lowercase();
    let host = host.trim_matches('.');
    let host = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    host.split('%').next().unwrap_or_default().to_owned()
}

fn is_local_name(host: &str) -> bool {
    host == "localhost" || host == "localhost.localdomain" || host.ends_with(".localhost")
}

/// The address a host stands for without asking DNS. Besides the usual notations this knows the
/// ones resolvers accept as well: one to four parts, each decimal, octal or hexadecimal.
pub fn literal(host: &str) -> Option<IpAddr> {
    if let Ok(address) = host.parse() {
        return Some(address);
    }
    let parts: Vec<u32> = host
        .split('.')
        .map(|part| match part.strip_prefix("0x") {
            Some("") => None,
            Some(hex) => u32::from_str_radix(hex, 16).ok(),
            None if part.len() > 1 && part.starts_with('0') => u32::from_str_radix(part, 8).ok(),
            None => part.parse().ok(),
        })
        .collect::<Option<_>>()?;
    let (last, leading) = parts.split_last()?;
    if leading.len() > 3 || leading.iter().any(|part| *part > 255) {
        return None;
    }
    let last_bits = 8 * (4 - u32::try_from(leading.len()).ok()?);
    if last_bits < 32 && *last >> last_bits != 0 {
        return None;
    }
    let mut address = u64::from(*last);
    for (index, part) in leading.iter().enumerate() {
        address |= u64::from(*part) << (24 - 8 * index);
    }
    Some(Ipv4Addr::from(u32::try_from(address).ok()?).into())
}

/// The address to judge: the IPv4 address inside an IPv6 one, where there is one. Mapped,
/// compatible, NAT64, 6to4 and Teredo addresses all end at that IPv4 host.
fn judged(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else {
        return address;
    };
    let segments = v6.segments();
    let embedded =
        |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)).into();
    match segments {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x0064, 0xff9b, 0, 0, 0, 0, high, low] => {
            embedded(high, low)
        }
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => embedded(high, low),
        [0x2002, high, low, ..] => embedded(high, low),
        [0x2001, 0, .., high, low] => embedded(!high, !low),
        _ => address,
    }
}
