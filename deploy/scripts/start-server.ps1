# Start the server, by the names that older start scripts had.
#   .\start-server.ps1 -ListGpus
#   .\start-server.ps1 -Device directml -GpuIndex 0 -Port 8080 -Model FOLDER
# What is not named here is for `anyrig serve`: .\start-server.ps1 --preload speech
# -v is PowerShell's own and handed on; all else goes by its long name.
[CmdletBinding(PositionalBinding = $false)]
param(
    [switch]$ListGpus,
    [string]$Device = "",
    [int]$GpuIndex = -1,
    [string]$Model = "",
    [int]$Port = 0,
    [switch]$AutoClone,
    [switch]$Help,
    [Parameter(ValueFromRemainingArguments = $true)][string[]]$Rest = @()
)
$ErrorActionPreference = "Stop"

$anyrig = $env:ANYRIG
if (-not $anyrig) {
    $found = Get-Command anyrig -ErrorAction SilentlyContinue
    $own = Join-Path $PSScriptRoot "..\..\.venv\Scripts\anyrig.exe"
    if ($found) { $anyrig = $found.Source }
    elseif (Test-Path $own) { $anyrig = $own }
    else { Write-Error "anyrig is not installed. Run install.ps1, or: pip install anyrig" }
}

if ($Help) { & $anyrig serve --help; exit $LASTEXITCODE }
if ($ListGpus) { & $anyrig devices @Rest; exit $LASTEXITCODE }
if ($AutoClone) { Write-Warning "Nothing is cloned; anyrig engines install NAME gets an engine." }
if ($Model) { $env:ANYRIG_SPEECH_MODEL = $Model }

$words = @("serve")
$kind = $Device.ToLower()
if ($kind -eq "directml") { $kind = "dml" }
if ($GpuIndex -lt 0) {
    if ($kind) { $words += @("--device", $kind) }
} elseif ($kind -eq "" -or $kind -eq "auto") {
    $words += @("--gpu", "$GpuIndex")
} elseif ($kind -eq "cpu") {
    $words += @("--device", "cpu")
} else {
    $words += @("--device", "${kind}:$GpuIndex")
}
if ($Port -gt 0) { $words += @("--port", "$Port") }
if ($PSBoundParameters.ContainsKey("Verbose")) { $words += "-v" }
$words += $Rest
& $anyrig @words
exit $LASTEXITCODE
