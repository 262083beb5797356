# Make .venv beside this file, install anyrig into it, and run the doctor. For Windows without make.
#   powershell -ExecutionPolicy Bypass -File install.ps1 [-Extras torch,webgpu]
param([string]$Extras = "", [string]$Python = "py")
$ErrorActionPreference = "Stop"
Set-Location $PSScriptRoot

$version = & $Python -c "import sys; print('%d.%d' % sys.version_info[:2])"
if ([version]$version -lt [version]"3.11") {
    Write-Error "anyrig needs Python 3.11 or newer; '$Python' is $version. Install one: winget install Python.Python.3.12"
}
if (-not (Test-Path ".venv\Scripts\python.exe")) {
    & $Python -m venv .venv
    if ($LASTEXITCODE -ne 0) { exit $LASTEXITCODE }
}
$target = if ($Extras) { ".[$Extras]" } else { "." }
& .venv\Scripts\python.exe -m pip install --quiet --disable-pip-version-check -c constraints.txt -e $target
if ($LASTEXITCODE -ne 0) { exit $LASTEXITCODE }
& .venv\Scripts\anyrig.exe doctor
$code = $LASTEXITCODE
Write-Output "Run it with: .venv\Scripts\anyrig.exe devices"
exit $code
