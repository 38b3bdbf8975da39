"""A run's copy elsewhere: in S3, Google Cloud Storage, Google Drive or another folder.

background.py   copies while the run trains, and never holds it up
sync.py         one pass: what has changed goes up, is verified, and is then named in the inventory
inventory.py    MIRROR.json, written last: which files make up the run, with size and hash
remote.py       the remote folder, through fsspec; drive.py: what Google Drive does otherwise
pull.py         brings a run back
"""
