//! Who is at the other end of a connection on loopback: this process, or somebody else in the pod.
//!
//! Two of the clients that need a listener of ours cannot show a password. But they run in this very
//! process, and the kernel tells which sockets a process holds. So no secret is needed: a
//! connection counts as ours if this process holds its other end.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader},
    net::SocketAddrV4,
    path::Path,
};

/// All IPv4 connections of the network namespace, with the number of the socket at their end.
const CONNECTIONS: &str = "/proc/self/net/tcp";
/// What this process has open.
const OPEN: &str = "/proc/self/fd";
/// The kernel's table may skip a line if it changes while it is read.
const READINGS: usize = 3;

/// Whether this process holds the socket at `caller` that is connected to `listener`. Reads files,
/// so call it where blocking is allowed.
pub(super) fn is_caller(caller: SocketAddrV4, listener: SocketAddrV4) -> io::Result<bool> {
    for _ in 0..READINGS {
        let table = BufReader::new(File::open(CONNECTIONS)?);
        if let Some(socket) = socket_of(table, caller, listener)? {
            return holds(Path::new(OPEN), socket);
        }
    }
    Ok(false)
}

/// The number of the socket at the end `local` of a connection.
fn socket_of(
    table: impl BufRead,
    local: SocketAddrV4,
    remote: SocketAddrV4,
) -> io::Result<Option<u64>> {
    let (local, remote) = (notation(local), notation(remote));
    for line in table.lines() {
        let line = line?;
        let mut columns = line.split_ascii_whitespace().skip(1);
        if columns.next() != Some(local.as_str()) || columns.next() != Some(remote.as_str()) {
            continue;
        }
        // State, queues, timer, retransmissions, owner and timeout are between.
        let socket = columns.nth(6).and_then(|number| number.parse().ok());
        // A connection that was closed has no socket any more.
        return Ok(socket.filter(|number| *number != 0));
    }
    Ok(None)
}

/// An address as the kernel writes it: the bytes as a number of this machine, and the port.
fn notation(address: SocketAddrV4) -> String {
    let bytes = u32::from_ne_bytes(address.ip().octets());
    format!("{bytes:08X}:{:04X}", address.port())
}

fn holds(open: &Path, socket: u64) -> io::Result<bool> {
    let wanted = format!("socket:[{socket}]");
    for entry in fs::read_dir(open)? {
        // Files come and go while this looks.
        if let Ok(target) = fs::read_link(entry?.path())
            && target.as_os_str() == wanted.as_str()
        {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::{
        net::{SocketAddr, TcpListener, TcpStream},
        process::{Command, Stdio},
    };

    use super::*;

    fn v4(address: SocketAddr) -> SocketAddrV4 {
        match address {
            SocketAddr::V4(address) => address,
            SocketAddr::V6(_) => panic!("{address}"),
        }
    }

    #[test]
    fn own_connections_are_known_while_they_are_open() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = v4(listener.local_addr().unwrap());
        let stream = TcpStream::connect(place).unwrap();
        let (accepted, caller) = listener.accept().unwrap();
        assert!(is_caller(v4(caller), place).unwrap());
        drop(stream);
        assert!(!is_caller(v4(caller), place).unwrap());
        drop(accepted);
        let nobody = "127.0.0.1:1".parse().unwrap();
        assert!(!is_caller(nobody, place).unwrap());
    }

    /// Another process of the same user, which no permission keeps out.
    #[test]
    fn other_processes_are_strangers() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = v4(listener.local_addr().unwrap());
        let mut stranger = Command::new("bash")
            .arg("-c")
            .arg(format!("exec 3<>/dev/tcp/127.0.0.1/{}; read", place.port()))
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let (_accepted, caller) = listener.accept().unwrap();
        let verdict = is_caller(v4(caller), place);
        drop(stranger.stdin.take());
        stranger.wait().unwrap();
        assert!(!verdict.unwrap());
    }

    #[test]
    fn the_table_is_read_by_both_ends() {
        let table = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1538 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1 0
   1: 0100007F:0050 0100007F:0438 01 00000000:00000000 00:00000000 00000000     0        0 12 1 0
   2: 0100007F:0438 0100007F:0050 01 00000000:00000000 00:00000000 00000000  1000        0 13 1 0
   3: 0100007F:0439 0100007F:0050 06 00000000:00000000 03:00000F9C 00000000     0        0 0 3 0
";
        let socket = |local: &str, remote: &str| {
            let (local, remote) = (local.parse().unwrap(), remote.parse().unwrap());
            socket_of(table.as_bytes(), local, remote).unwrap()
        };
        if cfg!(target_endian = "little") {
            assert_eq!(socket("127.0.0.1:1080", "127.0.0.1:80"), Some(13));
            assert_eq!(socket("127.0.0.1:80", "127.0.0.1:1080"), Some(12));
            assert_eq!(socket("127.0.0.1:1080", "127.0.0.1:81"), None);
            assert_eq!(socket("127.0.0.1:1081", "127.0.0.1:80"), None);
            assert_eq!(socket("127.0.0.2:1080", "127.0.0.1:80"), None);
        }
    }
}
