use super::*;

fn private() -> AddressPolicy {
    AddressPolicy {
        allow_private: true,
        ..AddressPolicy::default()
    }
}

/// (address, allowed by default, allowed with private networks)
const ADDRESSES: [(&str, bool, bool); 43] = [
    ("10.20.30.40", false, true),
    ("172.16.5.5", false, true),
    ("192.168.1.10", false, true),
    ("fd00::1", false, true),
    ("169.254.169.254", false, false),
    ("169.254.10.10", false, false),
    ("fe80::1", false, false),
    ("fd00:ec2::254", false, false),
    ("fd20:ce::254", false, false),
    ("168.63.129.16", false, false),
    ("127.0.0.1", false, false),
    ("::1", false, false),
    ("::", false, false),
    ("0.0.0.0", false, false),
    ("0.1.2.3", false, false),
    ("224.0.0.1", false, false),
    ("239.1.1.1", false, false),
    ("255.255.255.255", false, false),
    ("240.0.0.1", false, false),
    ("100.64.0.1", false, false),
    ("198.18.0.1", false, false),
    ("192.0.0.1", false, false),
    ("203.0.113.9", false, false),
    ("fec0::1", false, false),
    ("ff02::1", false, false),
    ("::ffff:127.0.0.1", false, false),
    ("::ffff:100.64.0.1", false, false),
    ("::ffff:10.0.0.1", false, true),
    ("64:ff9b::7f00:1", false, false),
    ("2002:7f00:1::", false, false),
    ("::127.0.0.1", false, false),
    ("64:ff9b:1::a00:1", false, false),
    ("::ffff:0:10.0.0.1", false, false),
    ("100::1", false, false),
    ("2001:10::1", false, false),
    ("2001:db8::1", false, false),
    ("3fff::1", false, false),
    ("5f00::1", false, false),
    ("2a00:1450:4001::8a", true, true),
    ("64:ff9b::8.8.8.8", true, true),
    ("93.184.216.34", true, true),
    ("8.8.8.8", true, true),
    ("2606:4700::1111", true, true),
];

#[test]
fn addresses_are_judged_by_what_they_reach() {
    for (address, by_default, with_private) in ADDRESSES {
        let parsed = address.parse().unwrap();
        assert_eq!(
            AddressPolicy::default().allows_address(parsed),
            by_default,
            "{address} by default"
        );
        assert_eq!(
            private().allows_address(parsed),
            with_private,
            "{address} with private"
        );
    }
}

/// Not even an administrator who opens everything, or names the host, opens these.
#[test]
fn a13_platform_addresses_are_always_refused() {
    let open = AddressPolicy {
        allow_private: true,
        allowed_networks: vec!["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()],
        allowed_hosts: vec!["db.example.com".to_owned()],
        platform: false,
    };
    for address in [
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "169.254.0.23",
        "169.254.42.42",
        "168.63.129.16",
        "100.100.100.200",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
        "fd00:42::42",
        "fd00:a9fe:a9fe::1",
        "fe80::a9fe:a9fe",
        "::ffff:100.100.100.200",
        "::ffff:192.0.0.192",
        "::100.100.100.200",
        "64:ff9b::100.100.100.200",
        "64:ff9b:1::a9fe:a9fe",
        "::ffff:0:169.254.169.254",
        "2002:6464:64c8::",
        "2001:db8::5efe:169.254.169.254",
        "2001:db8::200:5efe:100.100.100.200",
    ] {
        let address: IpAddr = address.parse().unwrap();
        for policy in [&AddressPolicy::default(), &private(), &open] {
            assert!(!policy.allows_address(address), "{address}");
            assert!(!policy.allows_host(&address.to_string()), "{address}");
            assert!(
                !policy.allows_resolved("db.example.com", address),
                "{address}"
            );
        }
    }
    for address in [
        "100.100.100.201",
        "192.0.0.193",
        "fd00:ec3::254",
        "fd00:42::43",
    ] {
        assert!(open.allows_address(address.parse().unwrap()), "{address}");
    }
    for host in [
        "metadata.goog",
        "Metadata.Azure.Internal.",
        "metadata.tencentyun.com",
    ] {
        assert!(!open.allows_host(host), "{host}");
    }
}

#[test]
fn hosts_are_judged_in_every_spelling() {
    for (host, by_default, with_private) in [
        ("git.example.com", true, true),
        ("svc.ns.svc.cluster.local", true, true),
        ("", true, true),
        ("LOCALHOST.", false, false),
        ("localhost.localdomain", false, false),
        ("x.localhost", false, false),
        ("metadata", false, false),
        ("metadata.google.internal.", false, false),
        ("instance-data.ec2.internal", false, false),
        ("[::1]", false, false),
        ("[fe80::1%25eth0]", false, false),
        ("fd00:ec2::254%eth0", false, false),
        ("10.1.2.3", false, true),
        ("[fd00::1]", false, true),
        ("2130706433", false, false),
        ("0x7f.1", false, false),
        ("0177.0.0.1", false, false),
        ("0xa000001", false, true),
        ("1.2.3.4.5", true, true),
    ] {
        assert_eq!(
            AddressPolicy::default().allows_host(host),
            by_default,
            "{host:?}"
        );
        assert_eq!(
            private().allows_host(host),
            with_private,
            "{host:?} with private"
        );
    }
}

#[test]
fn allow_lists_open_exactly_what_they_name() {
    let policy = AddressPolicy {
        allow_private: false,
        allowed_networks: vec![
            "127.0.0.1/32".parse().unwrap(),
            "10.96.0.0/12".parse().unwrap(),
            "169.254.0.0/16".parse().unwrap(),
        ],
        allowed_hosts: vec!["localhost".to_owned(), "metadata".to_owned()],
        platform: false,
    };
    for (host, allowed) in [
        ("127.0.0.1", true),
        ("127.0.0.2", false),
        ("10.97.1.1", true),
        ("10.1.1.1", false),
        ("169.254.169.254", false),
        ("localhost", true),
        ("db.localhost", false),
        ("metadata", false),
    ] {
        assert_eq!(policy.allows_host(host), allowed, "{host}");
    }
}

/// For the one who asks the platform who this process is; private networks stay another question.
#[test]
fn platform_services_are_opened_by_their_own_word() {
    let policy = AddressPolicy {
        platform: true,
        ..AddressPolicy::default()
    };
    for host in [
        "169.254.169.254",
        "metadata.google.internal",
        "[fd00:ec2::23]",
    ] {
        assert!(policy.allows_host(host), "{host}");
        assert!(!AddressPolicy::default().allows_host(host), "{host}");
    }
    for host in ["10.0.0.1", "127.0.0.1", "localhost"] {
        assert!(!policy.allows_host(host), "{host}");
    }
}

#[test]
fn an_allowed_host_may_be_anywhere_but_on_the_platform() {
    let policy = AddressPolicy {
        allowed_hosts: vec![
            "db.example.com".to_owned(),
            "*.data.svc".to_owned(),
            ".Internal.".to_owned(),
        ],
        ..AddressPolicy::default()
    };
    for (host, address, allowed) in [
        ("db.example.com", "10.0.0.1", true),
        ("DB.example.com.", "127.0.0.1", true),
        ("db.example.com", "169.254.169.254", false),
        ("db.example.com", "::ffff:169.254.169.254", false),
        ("x.db.example.com", "10.0.0.1", false),
        ("postgres.data.svc", "10.0.0.1", true),
        ("a.b.data.svc", "10.0.0.1", true),
        ("data.svc", "10.0.0.1", false),
        (".data.svc", "10.0.0.1", false),
        ("evildata.svc", "10.0.0.1", false),
        ("git.internal", "192.168.1.1", true),
        ("other.example.com", "10.0.0.1", false),
        ("other.example.com", "8.8.8.8", true),
    ] {
        assert_eq!(
            policy.allows_resolved(host, address.parse().unwrap()),
            allowed,
            "{host} at {address}"
        );
    }
}

#[test]
fn networks_are_read_strictly() {
    for text in ["10.0.0.0/33", "10.0.0/8", "x", "fd00::/129", "/8"] {
        assert!(text.parse::<Network>().is_err(), "{text}");
    }
    let everything: Network = "0.0.0.0/0".parse().unwrap();
    assert!(everything.contains("8.8.8.8".parse().unwrap()));
    assert!(!everything.contains("::1".parse().unwrap()));
}
