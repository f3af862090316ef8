//! IP addresses and networks.

use std::net::IpAddr;
use std::sync::Arc;

use super::super::error::EvalError;
use super::super::kind::{Kind, Kinds};
use super::super::value::Val;
use super::opaque::Opaque;
use super::params::STRING;
use super::{Function, Ret, function, method, text};

const IP: Kinds = Kinds::of(&[Kind::Ip]);
const CIDR: Kinds = Kinds::of(&[Kind::Cidr]);
const TO_BOOL: Ret = Ret::Is(Kind::Bool);

pub(in super::super) const FUNCTIONS: &[Function] = &[
    function("ip", &[STRING], Ret::Is(Kind::Ip), |_, args| {
        parse_ip(text(args, 0)).map(ip_value).ok_or_else(no_ip)
    }),
    function("isIP", &[STRING], TO_BOOL, |_, args| {
        Ok(Val::Bool(parse_ip(text(args, 0)).is_some()))
    }),
    function(
        "ip.isCanonical",
        &[STRING],
        TO_BOOL,
        |_, args| match parse_ip(text(args, 0)) {
            Some(ip) => Ok(Val::Bool(ip.to_string() == text(args, 0))),
            None => Err(no_ip()),
        },
    ),
    function("string", &[IP], Ret::Is(Kind::String), |_, args| {
        Ok(Val::text(ip(&args[0]).to_string()))
    }),
    method("family", &[IP], Ret::Is(Kind::Int), |_, args| {
        Ok(Val::Int(if ip(&args[0]).is_ipv4() { 4 } else { 6 }))
    }),
    method("isUnspecified", &[IP], TO_BOOL, |_, args| {
        Ok(Val::Bool(ip(&args[0]).is_unspecified()))
    }),
    method("isLoopback", &[IP], TO_BOOL, |_, args| {
        Ok(Val::Bool(ip(&args[0]).is_loopback()))
    }),
    method("isLinkLocalUnicast", &[IP], TO_BOOL, |_, args| {
        Ok(Val::Bool(is_link_local(ip(&args[0]))))
    }),
    method("isLinkLocalMulticast", &[IP], TO_BOOL, |_, args| {
        Ok(Val::Bool(match ip(&args[0]) {
            IpAddr::V4(ip) => ip.octets().starts_with(&[224, 0, 0]),
            IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
        }))
    }),
    method("isGlobalUnicast", &[IP], TO_BOOL, |_, args| {
        let ip = ip(&args[0]);
        let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
        Ok(Val::Bool(
            !broadcast
                && !ip.is_unspecified()
                && !ip.is_loopback()
                && !ip.is_multicast()
                && !is_link_local(ip),
        ))
    }),
    function("cidr", &[STRING], Ret::Is(Kind::Cidr), |_, args| {
        Cidr::parse(text(args, 0))
            .map(cidr_value)
            .ok_or_else(no_cidr)
    }),
    function("isCIDR", &[STRING], TO_BOOL, |_, args| {
        Ok(Val::Bool(Cidr::parse(text(args, 0)).is_some()))
    }),
    function("string", &[CIDR], Ret::Is(Kind::String), |_, args| {
        Ok(Val::text(cidr(&args[0]).text()))
    }),
    method("ip", &[CIDR], Ret::Is(Kind::Ip), |_, args| {
        Ok(ip_value(cidr(&args[0]).address))
    }),
    method("masked", &[CIDR], Ret::Is(Kind::Cidr), |_, args| {
        Ok(cidr_value(cidr(&args[0]).masked()))
    }),
    method("isMask", &[CIDR], TO_BOOL, |_, args| {
        Ok(Val::Bool(cidr(&args[0]) == cidr(&args[0]).masked()))
    }),
    method("prefixLength", &[CIDR], Ret::Is(Kind::Int), |_, args| {
        Ok(Val::Int(i64::from(cidr(&args[0]).bits)))
    }),
    method("containsIP", &[CIDR, IP], TO_BOOL, |_, args| {
        Ok(Val::Bool(cidr(&args[0]).contains(ip(&args[1]))))
    }),
    method(
        "containsIP",
        &[CIDR, STRING],
        TO_BOOL,
        |_, args| match parse_ip(text(args, 1)) {
            Some(ip) => Ok(Val::Bool(cidr(&args[0]).contains(ip))),
            None => Err(no_ip()),
        },
    ),
    method("containsCIDR", &[CIDR, CIDR], TO_BOOL, |_, args| {
        Ok(Val::Bool(cidr(&args[0]).contains_network(cidr(&args[1]))))
    }),
    method(
        "containsCIDR",
        &[CIDR, STRING],
        TO_BOOL,
        |_, args| match Cidr::parse(text(args, 1)) {
            Some(inner) => Ok(Val::Bool(cidr(&args[0]).contains_network(inner))),
            None => Err(no_cidr()),
        },
    ),
];

fn no_ip() -> EvalError {
    EvalError::argument(
        "ip",
        "not an IPv4 or IPv6 address (without zone, not IPv4-mapped)",
    )
}

fn no_cidr() -> EvalError {
    EvalError::argument("cidr", "not a network such as 10.0.0.0/8 or fd00::/8")
}

/// An address. IPv4 inside IPv6 has two spellings for one address and is refused.
fn parse_ip(text: &str) -> Option<IpAddr> {
    let ip: IpAddr = text.parse().ok()?;
    match ip {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => None,
        ip => Some(ip),
    }
}

fn ip_value<'a>(ip: IpAddr) -> Val<'a> {
    Val::Opaque(Arc::new(Opaque::Ip(ip)))
}

fn cidr_value<'a>(cidr: Cidr) -> Val<'a> {
    Val::Opaque(Arc::new(Opaque::Cidr(cidr)))
}

fn ip(value: &Val<'_>) -> IpAddr {
    if let Val::Opaque(opaque) = value
        && let Opaque::Ip(ip) = &**opaque
    {
        return *ip;
    }
    IpAddr::from([0; 4])
}

fn cidr(value: &Val<'_>) -> Cidr {
    if let Val::Opaque(opaque) = value
        && let Opaque::Cidr(cidr) = &**opaque
    {
        return *cidr;
    }
    Cidr {
        address: IpAddr::from([0; 4]),
        bits: 32,
    }
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

/// A network: an address and how many of its leading bits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Cidr {
    address: IpAddr,
    bits: u8,
}

impl Cidr {
    fn parse(text: &str) -> Option<Cidr> {
        let (address, bits) = text.split_once('/')?;
        let address = parse_ip(address)?;
        let digits = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
        if !digits || (bits.len() > 1 && bits.starts_with('0')) {
            return None;
        }
        let bits: u8 = bits.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        (bits <= most).then_some(Cidr { address, bits })
    }

    pub(in super::super) fn text(self) -> String {
        format!("{}/{}", self.address, self.bits)
    }

    fn masked(self) -> Cidr {
        Cidr {
            address: mask(self.address, self.bits),
            bits: self.bits,
        }
    }

    fn contains(self, ip: IpAddr) -> bool {
        self.address.is_ipv4() == ip.is_ipv4()
            && mask(ip, self.bits) == mask(self.address, self.bits)
    }

    fn contains_network(self, inner: Cidr) -> bool {
        self.bits <= inner.bits && self.contains(inner.address)
    }
}

/// The address with all but its leading bits cleared.
fn mask(ip: IpAddr, bits: u8) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => {
            let keep = u32::MAX
                .checked_shl(32 - u32::from(bits.min(32)))
                .unwrap_or(0);
            IpAddr::from((u32::from(ip) & keep).to_be_bytes())
        }
        IpAddr::V6(ip) => {
            let keep = u128::MAX
                .checked_shl(128 - u32::from(bits.min(128)))
                .unwrap_or(0);
            IpAddr::from((u128::from(ip) & keep).to_be_bytes())
        }
    }
}
