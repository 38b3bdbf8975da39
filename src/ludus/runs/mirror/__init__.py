"""Mirror of a run: a copy in S3, Google Cloud Storage, Google Drive or another folder.

background.py   copies while the run trains, without delaying it
sync.py         one pass: upload the changes, verify them, then list them in the inventory
inventory.py    MIRROR.json, written last: the files of the run with size and hash
remote.py       the remote folder, through fsspec; drive.py: the differences of Google Drive
pull.py         downloads a run
"""
